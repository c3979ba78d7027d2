# Everything is cargo underneath; CARGO_TARGET_DIR is honoured.

.PHONY: demo test crash canary bench up deny advisories

# Two agents, a Honcho and a model stand-in, no network: each step says what was checked.
demo:
	cargo build --locked --workspace --bins
	cargo run --locked --quiet --bin demo

# What .ci/run runs: format, lints, tests (the document checks among them), licences.
test:
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	cargo build --locked --workspace --bins
	cargo test --locked --workspace
	@$(MAKE) --no-print-directory deny

# The crash tests of `make test` again, with a longer day and every point of it: about an hour on two cores.
crash:
	cargo build --locked --workspace --bins
	BX_DAY=long cargo test --locked -p bxtest --test crash -- --nocapture

# Every test again, keeping what the daemons log and those of their files that must hold no text: tests put a canary
# into keys, texts and answers, and none may turn up. A failing test shows canaries too, so it fails here as well.
canary:
	cargo build --locked --workspace --bins
	@kept=$$(mktemp -d) && \
	{ BX_KEEP=$$kept cargo test --locked --workspace >$$kept/tests.out 2>&1 || { tail -n 40 $$kept/tests.out; exit 1; }; } && \
	test -n "$$(ls $$kept/*.log)" && \
	if grep -il canary $$kept/*.log $$kept/*.jsonl; then echo "a canary is in these files"; exit 1; fi && \
	if grep -iv '^test \|Running\|Compiling\|warning' $$kept/tests.out | grep -i canary; then exit 1; fi && \
	echo "no canary in $$(ls $$kept | wc -l) files" && rm -r $$kept

deny:
	@if cargo deny --version >/dev/null 2>&1; then \
		cargo deny --locked check bans licenses sources; \
	else \
		echo "cargo-deny is not installed, so bans, licences and sources were not checked;"; \
		echo "to have it: cargo install --locked cargo-deny"; \
	fi

# Needs a network, and can fail on a day when nothing here has changed: so not a part of `test`.
advisories:
	cargo deny --locked check advisories

# Figures, never assertions; docs/benchmarks.md says what each one means.
bench:
	cargo build --locked --release --workspace --bins
	cargo run --locked --quiet --release --bin bench
	cargo bench --locked --quiet -p bxtest --bench sync
	cargo bench --locked --quiet -p bxtest --bench recall

# The same by hand: daemons and stand-ins in the foreground, then a chat. Ctrl-D ends it.
up:
	cargo build --locked --workspace --bins
	cargo run --locked --quiet --bin bxctl -- up
