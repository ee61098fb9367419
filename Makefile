# Builds and tests allogram with Meson and Ninja, and installs missing Debian packages first (tools/install_packages.sh).
# `meson setup build && ninja -C build` builds the same without this file.
#
#     make            build allogram: build/allogram         make fmt       format the C files
#     make check      the most important tests, in minutes   make lint      check the rules of CONTRIBUTING.md
#     make test       nearly every test, with a count        make install   [DESTDIR=...] [PREFIX=/usr/local]
#     make demo       profile jq: a report and a page        make uninstall remove what make install installed
#     make bench      measure the figures of overhead.md     make clean     remove build/
#     make soak       the long tests, at full length         make fuzz      [SECONDS_EACH=60] every fuzz target
#     make docs       the documents as a site: build/site
#     make asan, make ubsan, make tsan     unit tests under the address, undefined behavior or thread sanitizer

BUILD ?= build
PREFIX ?= /usr/local
SECONDS_EACH ?= 60

.DELETE_ON_ERROR:
.PHONY: all check test demo bench docs soak asan ubsan tsan fuzz fmt lint install uninstall clean

all: | packages-build
	@tools/configure.sh $(BUILD) -Dprefix=$(PREFIX)
	@ninja -C $(BUILD)
	@ln -sf src/cli/allogram $(BUILD)/allogram

PACKAGES = packages-build packages-build-test packages-build-test-fuzz packages-build-test-fuzz-roots \
           packages-build-test-fuzz-soak \
           packages-build-demo packages-build-bench packages-build-fuzz packages-docs
.PHONY: $(PACKAGES)
$(PACKAGES): packages-%:
	@tools/install_packages.sh $(subst -, ,$*)

check: | packages-build-test
	@tools/run_check.sh $(BUILD)

test: | packages-build-test-fuzz-roots
	@tools/run_tests.sh $(BUILD)

soak: | packages-build-test-fuzz-soak
	@tools/run_soak.sh $(BUILD)

demo: all | packages-build-demo
	@demo/run.sh $(BUILD)

bench: | packages-build-bench
	@tools/configure.sh $(BUILD)
	@ninja -C $(BUILD) --quiet
	@bench/run.sh $(BUILD)

docs: | packages-docs
	@tools/build_docs.sh $(BUILD)

asan ubsan tsan: | packages-build-test-fuzz
	@tools/run_sanitized.sh $(BUILD) $@

fuzz: | packages-build-fuzz
	@tools/run_fuzzers.sh $(BUILD) $(SECONDS_EACH)

fmt:
	@tools/check_format.sh --fix

lint: | packages-build-test
	@tools/configure.sh $(BUILD)
	@ninja -C $(BUILD) --quiet
	@meson test -C $(BUILD) --no-rebuild --suite lint --print-errorlogs

install: all
	@meson install -C $(BUILD) --no-rebuild

uninstall:
	@ninja -C $(BUILD) uninstall

clean:
	rm -rf $(BUILD)
