//! The table of known secret formats: a literal beginning, then what has to follow. Read by `refuse`;
//! it holds no code that looks at text.
//!
//! Lower bounds only: a beginning plus at least so many characters of an alphabet. No upper bound, no
//! right boundary, no entropy test: a false alarm costs one memory kept local, a miss costs a key.
//!
//! # Source
//! The issuers' own format descriptions and the rule sets of public secret scanners.

use Alphabet::{
    B62, B64, Base32, Crypt, Digits, Dotted, Hex, HexAny, Letters, Lower, LowerDigits, Percent,
    Printable, Upper, UpperDigits, Url, Word,
};
use Part::{Exactly, Lit, Run};

/// The characters a part of a secret is made of. All are ASCII.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alphabet {
    /// Letters and digits.
    B62,
    /// `B62`, `_` and `-`.
    Url,
    /// `B62` and `_`.
    Word,
    /// `B62` and `+/=`.
    B64,
    /// `Url` and `.`.
    Dotted,
    /// `Dotted` and `~`.
    Azure,
    /// `B64`, `%` and `-_`: base64 as it stands in an address.
    Percent,
    /// `0-9a-f`.
    Hex,
    /// `Hex` in either case.
    HexAny,
    /// `0-9`.
    Digits,
    /// `a-zA-Z`.
    Letters,
    /// `a-z`.
    Lower,
    /// `a-z0-9`.
    LowerDigits,
    /// `A-Z`.
    Upper,
    /// `A-Z0-9`.
    UpperDigits,
    /// `A-Z2-7`.
    Base32,
    /// What a password hash is written with.
    Crypt,
    /// Anything visible.
    Printable,
}

impl Alphabet {
    /// True if the alphabet has this byte.
    #[must_use]
    pub fn has(self, b: u8) -> bool {
        match self {
            Alphabet::B62 => b.is_ascii_alphanumeric(),
            Alphabet::Url => b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'),
            Alphabet::Word => b.is_ascii_alphanumeric() || b == b'_',
            Alphabet::B64 => b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'='),
            Alphabet::Dotted => b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'),
            Alphabet::Azure => b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b'~'),
            Alphabet::Percent => {
                b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'=' | b'%' | b'-' | b'_')
            }
            Alphabet::Hex => b.is_ascii_digit() || matches!(b, b'a'..=b'f'),
            Alphabet::HexAny => b.is_ascii_hexdigit(),
            Alphabet::Digits => b.is_ascii_digit(),
            Alphabet::Letters => b.is_ascii_alphabetic(),
            Alphabet::Lower => b.is_ascii_lowercase(),
            Alphabet::LowerDigits => b.is_ascii_lowercase() || b.is_ascii_digit(),
            Alphabet::Upper => b.is_ascii_uppercase(),
            Alphabet::UpperDigits => b.is_ascii_uppercase() || b.is_ascii_digit(),
            Alphabet::Base32 => b.is_ascii_uppercase() || matches!(b, b'2'..=b'7'),
            Alphabet::Crypt => {
                b.is_ascii_alphanumeric()
                    || matches!(b, b'.' | b'/' | b'$' | b'+' | b'=' | b',' | b'-' | b'_')
            }
            Alphabet::Printable => b.is_ascii_graphic(),
        }
    }
}

/// One thing that has to follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// As many characters of the alphabet as there are, at least this many.
    Run(Alphabet, usize),
    /// This many characters of the alphabet.
    Exactly(Alphabet, usize),
    /// This text.
    Lit(&'static str),
}

/// What may stand before a rule's beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// Anything.
    Any,
    /// No letter or digit: the beginning is short enough to occur inside words.
    Boundary,
}

/// One row: any of the beginnings, then every part in order.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// What a refusal says.
    pub name: &'static str,
    pub prefixes: &'static [&'static str],
    pub parts: &'static [Part],
    pub left: Left,
}

const fn any(
    name: &'static str,
    prefixes: &'static [&'static str],
    parts: &'static [Part],
) -> Rule {
    Rule {
        name,
        prefixes,
        parts,
        left: Left::Any,
    }
}

const fn word(
    name: &'static str,
    prefixes: &'static [&'static str],
    parts: &'static [Part],
) -> Rule {
    Rule {
        name,
        prefixes,
        parts,
        left: Left::Boundary,
    }
}

/// Every format that is a beginning and what follows it. The others are `refuse::special`.
#[rustfmt::skip]
pub static RULES: &[Rule] = &[
    // Keys and certificates.
    any("pem-private-key-base64", &["LS0tLS1CRUdJTi"], &[]),
    any("putty-private-key", &["PuTTY-User-Key-File-2:", "PuTTY-User-Key-File-3:"], &[]),
    any("age-secret-key", &["AGE-SECRET-KEY-1"], &[Run(UpperDigits, 58)]),
    any("age-hybrid-secret-key", &["AGE-SECRET-KEY-PQ-1"], &[Run(UpperDigits, 58)]),
    any("wireguard-key", &["PrivateKey = ", "PrivateKey=", "PresharedKey = ", "PresharedKey="], &[Exactly(B64, 43), Lit("=")]),
    any("minisign-secret-key", &["minisign encrypted secret key", "signify secret key", "rsign encrypted secret key"], &[]),
    any("ansible-vault", &["$ANSIBLE_VAULT;"], &[]),
    word("bitcoin-extended-private-key", &["xprv", "yprv", "zprv", "tprv"], &[Run(B62, 100)]),
    word("nostr-secret-key", &["nsec1"], &[Run(LowerDigits, 58)]),
    any("kubernetes-client-key", &["client-key-data: "], &[Run(B64, 64)]),
    any("docker-config-auth", &["\"auth\": \"", "\"auth\":\""], &[Run(B64, 20)]),

    // Code hosting.
    any("github-token", &["ghp_", "gho_", "ghu_", "ghs_", "ghr_"], &[Run(B62, 36)]),
    any("github-fine-grained-token", &["github_pat_"], &[Run(Word, 40)]),
    any("gitlab-token", &["glpat-", "gldt-", "glrt-", "glptt-", "glft-", "glimt-", "glagent-", "gloas-", "glsoat-", "glcbt-", "glffct-", "glrtr-"], &[Run(Url, 20)]),
    any("gitlab-runner-token", &["GR1348941"], &[Run(Url, 20)]),
    any("bitbucket-token", &["ATATT3", "ATCTT3"], &[Run(Percent, 100)]),
    any("bitbucket-app-password", &["ATBB"], &[Run(B62, 32)]),
    any("sourcegraph-token", &["sgp_", "sgd_", "slk_"], &[Run(Word, 40)]),

    // Clouds.
    word("aws-access-key-id", &["AKIA", "ASIA", "ABIA", "ACCA"], &[Run(Base32, 16)]),
    any("aws-secret-access-key", &["aws_secret_access_key = ", "aws_secret_access_key=", "AWS_SECRET_ACCESS_KEY=", "AWS_SECRET_ACCESS_KEY=\"", "\"SecretAccessKey\": \""], &[Run(B64, 40)]),
    any("aws-bedrock-key", &["ABSK"], &[Run(B64, 109)]),
    any("aws-bedrock-short-key", &["bedrock-api-key-YmVkcm9jay5hbWF6b25hd3MuY29t"], &[]),
    any("google-api-key", &["AIza"], &[Run(Url, 35)]),
    any("google-oauth-secret", &["GOCSPX-"], &[Run(Url, 28)]),
    any("google-access-token", &["ya29."], &[Run(Url, 20)]),
    any("google-refresh-token", &["1//0"], &[Run(Url, 40)]),
    any("gemini-key", &["AQ.Ab8RN6"], &[Run(Url, 44)]),
    any("azure-storage-key", &["AccountKey="], &[Run(B64, 86)]),
    any("azure-shared-access-key", &["SharedAccessKey="], &[Run(B64, 40)]),
    any("azure-app-configuration", &[";Secret="], &[Run(B64, 40)]),
    any("azure-sas-signature", &["&sig=", "?sig="], &[Run(Percent, 43)]),
    any("azure-signed-key", &["JQQJ99"], &[Run(B62, 24)]),
    word("alibaba-key-id", &["LTAI"], &[Run(B62, 17)]),
    word("tencent-secret-id", &["AKID"], &[Run(B62, 32)]),
    any("yandex-key", &["AQVN"], &[Run(Url, 35)]),
    any("yandex-static-key", &["YCAJ", "YCPJ", "YCMJ", "YCNJ"], &[Run(Url, 20)]),
    word("yandex-token", &["t1.9eu", "y0_Ag", "y0__"], &[Run(Url, 40)]),
    any("digitalocean-token", &["dop_v1_", "doo_v1_", "dor_v1_"], &[Run(Hex, 64)]),
    any("cloudflare-origin-key", &["v1.0-"], &[Run(Hex, 24), Lit("-"), Run(Hex, 146)]),
    any("cloudflare-token", &["cfat_", "cfut_", "cfk_"], &[Run(Url, 40)]),
    any("fly-token", &["FlyV1 ", "fm1_", "fm1a_", "fm1r_", "fm2_", "fo1_"], &[Run(Percent, 40)]),
    any("heroku-key", &["HRKU-AA"], &[Run(Url, 58)]),
    any("netlify-token", &["nfp_", "nfc_", "nfo_", "nfu_", "nfb_"], &[Run(Url, 36)]),
    any("render-key", &["rnd_"], &[Run(B62, 28)]),
    any("vercel-token", &["vcp_", "vci_", "vca_", "vcr_", "vck_"], &[Run(Url, 24)]),
    any("scalingo-token", &["tk-us-"], &[Run(Url, 48)]),
    any("openshift-token", &["sha256~"], &[Run(Url, 43)]),

    // Models and their tools.
    any("anthropic-key", &["sk-ant-"], &[Run(Url, 80)]),
    any("openai-key", &["T3BlbkFJ"], &[]),
    any("openai-project-key", &["sk-proj-", "sk-svcacct-", "sk-admin-"], &[Run(Url, 40)]),
    any("openrouter-key", &["sk-or-v1-", "sk-or-"], &[Run(Hex, 64)]),
    any("langfuse-key", &["sk-lf-"], &[Run(Url, 36)]),
    any("groq-key", &["gsk_"], &[Run(B62, 52)]),
    any("xai-key", &["xai-"], &[Run(Url, 70)]),
    any("perplexity-key", &["pplx-"], &[Run(B62, 48)]),
    any("cerebras-key", &["csk-"], &[Run(B62, 48)]),
    any("nvidia-key", &["nvapi-"], &[Run(Url, 60)]),
    any("replicate-token", &["r8_"], &[Run(B62, 37)]),
    any("together-key", &["tgp_v1_"], &[Run(Url, 43)]),
    word("huggingface-token", &["hf_", "api_org_"], &[Run(Letters, 30)]),
    word("generic-sk-key", &["sk-"], &[Run(B62, 40)]),
    word("elevenlabs-key", &["sk_"], &[Run(Hex, 48)]),
    any("langsmith-key", &["lsv2_pt_", "lsv2_sk_"], &[Run(Hex, 32), Lit("_"), Run(Hex, 10)]),
    any("wandb-key", &["wandb_v1_"], &[Run(Word, 77)]),
    any("tavily-key", &["tvly-"], &[Run(Url, 32)]),
    any("jina-key", &["jina_"], &[Run(Url, 60)]),
    word("firecrawl-key", &["fc-"], &[Run(Hex, 32)]),
    any("voyage-key", &["pa-", "al-"], &[Exactly(B62, 1), Run(Url, 42)]).bounded(),
    any("pinecone-key", &["pcsk_"], &[Run(Word, 60)]),
    word("e2b-key", &["e2b_"], &[Run(Hex, 40)]),
    word("fireworks-key", &["fw_"], &[Run(B62, 22)]),
    word("modal-token", &["ak-", "as-"], &[Run(B62, 22)]),
    any("cursor-key", &["crsr_", "key_"], &[Run(Hex, 64)]),
    any("logfire-token", &["pylf_v"], &[Exactly(Digits, 1), Lit("_"), Run(Word, 40)]),
    any("context7-key", &["ctx7sk-"], &[Run(Url, 36)]),
    any("baidu-key", &["bce-v3/ALTAK-"], &[Run(B62, 20)]),

    // Chat and mail.
    any("slack-token", &["xoxb-", "xoxp-", "xoxa-", "xoxr-", "xoxs-", "xoxo-", "xoxe-", "xoxc-", "xoxd-", "xapp-", "xoxe.xoxb-", "xoxe.xoxp-"], &[Run(Percent, 10)]),
    any("slack-webhook", &["hooks.slack.com/services/", "hooks.slack.com/workflows/", "hooks.slack.com/triggers/"], &[Run(Percent, 40)]),
    any("teams-webhook", &[".webhook.office.com/webhookb2/"], &[Run(Printable, 60)]),
    any("discord-webhook", &["discord.com/api/webhooks/", "discordapp.com/api/webhooks/"], &[Run(Digits, 17), Lit("/"), Run(Url, 40)]),
    any("mattermost-webhook", &["/hooks/"], &[Run(LowerDigits, 26)]),
    word("sendgrid-key", &["SG."], &[Run(Url, 16), Lit("."), Run(Url, 32)]),
    word("mailgun-key", &["key-"], &[Run(Hex, 32)]),
    any("brevo-key", &["xkeysib-", "xsmtpsib-"], &[Run(Hex, 64)]),
    any("mailersend-token", &["mlsn."], &[Run(B62, 30)]),
    word("resend-key", &["re_"], &[Run(B62, 8), Lit("_"), Run(B62, 20)]),
    word("twilio-key", &["SK"], &[Run(Hex, 32)]),
    word("nylas-key", &["nyk_v0_", "nyk_"], &[Run(B62, 40)]),

    // Money and shops.
    any("stripe-key", &["sk_live_", "rk_live_", "sk_test_", "rk_test_", "sk_prod_", "rk_prod_"], &[Run(B62, 16)]),
    any("signing-webhook-secret", &["whsec_"], &[Run(B64, 32)]),
    any("square-access-token", &["sq0atp-"], &[Run(Url, 22)]),
    any("square-secret", &["sq0csp-"], &[Run(Url, 43)]),
    word("square-production-token", &["EAAA"], &[Run(Url, 60)]),
    any("braintree-token", &["access_token$production$", "access_token$sandbox$"], &[]),
    any("shopify-token", &["shpat_", "shpca_", "shppa_", "shpss_"], &[Run(HexAny, 32)]),
    any("flutterwave-key", &["FLWSECK-", "FLWSECK_TEST-"], &[Run(Url, 12)]),
    any("plaid-token", &["access-sandbox-", "access-development-", "access-production-"], &[Run(Url, 36)]),
    any("duffel-token", &["duffel_test_", "duffel_live_"], &[Run(Url, 43)]),
    any("easypost-key", &["EZAK", "EZTK"], &[Run(B62, 54)]),
    any("shippo-token", &["shippo_live_", "shippo_test_"], &[Run(Hex, 40)]),
    any("razorpay-key", &["rzp_live_", "rzp_test_"], &[Run(B62, 14)]),
    any("paddle-key", &["pdl_live_apikey_", "pdl_sdbx_apikey_"], &[Run(Word, 40)]),
    any("rfc8959-secret-token", &["secret-token:"], &[Run(Word, 24)]),
    any("polar-token", &["polar_oat_", "polar_pat_"], &[Run(Url, 32)]),

    // Packages and containers.
    any("npm-token", &["npm_"], &[Run(B62, 36)]),
    any("npmrc-auth", &[":_authToken=", ":_password="], &[Run(B64, 20)]),
    any("pypi-token", &["pypi-AgE"], &[Run(Url, 50)]),
    any("rubygems-key", &["rubygems_"], &[Run(Hex, 48)]),
    word("crates-io-token", &["cio"], &[Run(B62, 32)]),
    word("nuget-key", &["oy2"], &[Run(LowerDigits, 43)]),
    any("clojars-token", &["CLOJARS_"], &[Run(LowerDigits, 60)]),
    any("docker-token", &["dckr_pat_", "dckr_oat_"], &[Run(Url, 27)]),
    any("docker-swarm-token", &["SWMTKN-1-", "SWMKEY-1-"], &[Run(Url, 25)]),
    any("artifactory-key", &["AKCp"], &[Run(B62, 69)]),
    any("artifactory-reference-token", &["cmVmd"], &[Run(B62, 59)]),

    // Data stores.
    any("supabase-token", &["sbp_"], &[Run(Hex, 40)]),
    any("supabase-secret-key", &["sb_secret_"], &[Run(Url, 31)]),
    any("neon-key", &["napi_"], &[Run(B62, 60)]),
    any("planetscale-token", &["pscale_tkn_", "pscale_oauth_", "pscale_pw_"], &[Run(Dotted, 32)]),
    word("databricks-token", &["dapi", "dkea", "dose"], &[Run(Hex, 32)]),
    any("airtable-token", &["pat"], &[Exactly(B62, 14), Lit("."), Run(Hex, 64)]).bounded(),
    any("cloudinary-address", &["cloudinary://"], &[Run(Digits, 10), Lit(":"), Run(Url, 20)]),
    any("contentful-token", &["CFPAT-"], &[Run(Url, 43)]),
    any("typeform-token", &["tfp_"], &[Run(Dotted, 40)]),
    any("prefect-key", &["pnu_"], &[Run(B62, 36)]),
    any("settlemint-token", &["sm_aat_", "sm_pat_", "sm_sat_"], &[Run(B62, 16)]),

    // Infrastructure and secrets.
    any("vault-token", &["hvs.", "hvb.", "hvr."], &[Run(Url, 24)]),
    any("pulumi-token", &["pul-"], &[Run(Hex, 40)]),
    any("doppler-token", &["dp.pt.", "dp.st.", "dp.ct.", "dp.sa.", "dp.scim.", "dp.audit."], &[Run(Dotted, 40)]),
    any("infisical-token", &["st."], &[Exactly(Hex, 8), Run(Dotted, 40)]).bounded(),
    any("onepassword-service-token", &["ops_eyJ"], &[Run(B64, 200)]),
    word("onepassword-secret-key", &["A3-"], &[Exactly(UpperDigits, 6), Lit("-"), Run(UpperDigits, 5), Lit("-"), Run(UpperDigits, 5), Lit("-"), Run(UpperDigits, 5)]),
    any("tailscale-key", &["tskey-auth-", "tskey-api-", "tskey-client-", "tskey-scim-", "tskey-webhook-"], &[Run(Url, 20)]),
    any("headscale-key", &["hskey-auth-", "hskey-api-"], &[Run(Url, 20)]),
    any("infracost-key", &["ico-"], &[Run(B62, 32)]),
    any("harness-token", &["pat.", "sat."], &[Run(Url, 22), Lit("."), Run(Hex, 24), Lit("."), Run(B62, 20)]).bounded(),
    any("dynatrace-token", &["dt0c01."], &[Run(UpperDigits, 24), Lit("."), Run(UpperDigits, 64)]),
    any("rootly-token", &["rootly_"], &[Run(Hex, 64)]),

    // Watching.
    any("grafana-service-token", &["glsa_"], &[Run(B62, 32), Lit("_"), Run(HexAny, 8)]),
    any("grafana-cloud-token", &["glc_"], &[Run(B64, 32)]),
    any("new-relic-key", &["NRAK-", "NRAA-", "NRII-", "NRIQ-", "NRAL-"], &[Run(Url, 27)]),
    any("sentry-token", &["sntrys_eyJ"], &[Run(B64, 40)]),
    any("sentry-user-token", &["sntryu_"], &[Run(Hex, 64)]),
    any("posthog-key", &["phx_", "phs_"], &[Run(Word, 43)]),
    any("honeycomb-key", &["hcaik_", "hcbik_", "hcalk_"], &[Run(LowerDigits, 58)]),
    any("axiom-token", &["xaat-", "xapt-"], &[Run(Url, 36)]),
    any("sonar-token", &["squ_", "sqp_", "sqa_"], &[Run(Hex, 40)]),

    // Work tools.
    any("linear-key", &["lin_api_", "lin_oauth_"], &[Run(B62, 40)]),
    word("notion-token", &["ntn_"], &[Exactly(Digits, 11), Run(B62, 35)]),
    word("notion-secret", &["secret_"], &[Run(B62, 43)]),
    any("figma-token", &["figd_"], &[Run(Url, 38)]),
    any("postman-key", &["PMAK-"], &[Run(Hex, 24), Lit("-"), Run(Hex, 34)]),
    word("dropbox-token", &["sl."], &[Run(Url, 130)]),
    word("facebook-token", &["EAA"], &[Exactly(Upper, 1), Run(B62, 60)]),
    any("mapbox-secret-token", &["sk.eyJ"], &[Run(Url, 40), Lit("."), Run(Url, 20)]),
    any("trello-token", &["ATTA"], &[Run(Hex, 64)]),
    any("readme-key", &["rdme_"], &[Run(LowerDigits, 70)]),
    any("frameio-token", &["fio-u-"], &[Run(Url, 64)]),
    any("adafruit-key", &["aio_"], &[Run(B62, 28)]),
    any("adobe-secret", &["p8e-", "p8e_"], &[Run(Url, 32)]),
    any("zuplo-key", &["zpka_"], &[Run(Word, 40)]),
    any("alchemy-token", &["alcht_"], &[Run(B62, 30)]),
    any("stytch-secret", &["secret-live-", "secret-test-"], &[Run(Url, 36)]),
    any("buildkite-token", &["bkua_", "bkaa_"], &[Run(LowerDigits, 40)]),
    any("circleci-token", &["CCIPAT_", "CCIPRJ_"], &[Run(B62, 22), Lit("_"), Run(Hex, 40)]),
    any("snyk-token", &["snyk_uat.", "snyk_sat."], &[Run(Dotted, 40)]),
    any("beamer-token", &["b_"], &[Exactly(B62, 1), Run(B64, 43)]).bounded(),

    // Shapes that are not one issuer's. JWTs: Honcho's keys are among them.
    any("json-web-token", &["eyJ"], &[Run(Url, 12), Lit(".eyJ"), Run(Url, 12), Lit("."), Run(Url, 10)]),
    any("bcrypt-hash", &["$2a$", "$2b$", "$2y$"], &[Exactly(Digits, 2), Lit("$"), Run(Crypt, 53)]),
    any("crypt-hash", &["$5$", "$6$", "$y$", "$gy$", "$7$", "$sha1$"], &[Run(Crypt, 40)]),
    any("md5-crypt-hash", &["$1$", "$apr1$"], &[Run(Crypt, 24)]),
    any("argon2-hash", &["$argon2"], &[Exactly(Lower, 1), Run(Crypt, 40)]),
    any("framework-password-hash", &["pbkdf2_sha256$", "pbkdf2_sha1$", "scrypt:32768:", "pbkdf2:sha256:"], &[Run(Printable, 40)]),
    any("ldap-password-hash", &["{SSHA}", "{SSHA512}", "{SHA}"], &[Run(B64, 28)]),
    any("scram-secret", &["SCRAM-SHA-256$", "SCRAM-SHA-1$"], &[Run(Printable, 40)]),
];

impl Rule {
    const fn bounded(self) -> Rule {
        Rule {
            left: Left::Boundary,
            ..self
        }
    }
}
