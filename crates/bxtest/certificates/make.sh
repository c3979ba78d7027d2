#!/bin/sh
# Makes the certificates of the tests anew, in this folder: a root with a server's certificate for this machine, and
# a root that nobody's certificate is from. Good from 2020 to 2120, whatever day it is. The roots' keys are not kept;
# the server's guards nothing.
set -eu
cd "$(dirname "$0")"
work=$(mktemp -d)
cat >"$work/ca.cnf" <<END
[ca]
default_ca = ca
database = $work/index
new_certs_dir = $work
default_md = sha256
policy = any
rand_serial = yes
unique_subject = no
[any]
commonName = supplied
[root]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign
[server]
basicConstraints = critical, CA:FALSE
extendedKeyUsage = serverAuth
subjectAltName = DNS:localhost, IP:127.0.0.1
END
: >"$work/index"
# What it is for, its name, where its key goes, and who signs.
certificate() {
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$2" -keyout "$3" -out "$work/$1.csr"
    name=$1 kind=$4
    shift 4
    openssl ca -batch -notext -config "$work/ca.cnf" -extensions "$kind" -in "$work/$name.csr" -out "$name.pem" \
        -startdate 20200101000000Z -enddate 21200101000000Z "$@"
}
certificate root "A root of the tests" "$work/root.key" root -selfsign -keyfile "$work/root.key"
certificate stranger "Another root of the tests" "$work/stranger.key" root -selfsign -keyfile "$work/stranger.key"
certificate server localhost server.key server -cert root.pem -keyfile "$work/root.key"
rm -r "$work"
