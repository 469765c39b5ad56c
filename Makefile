# make            build ./lathe            make demo    build, prepare the default corpus, open it
# make test       all tests (T=t_gen: one) make check   layers, headers, warnings as errors
# make bench      speed and memory         make deps    install missing packages (apt)
# make parity     compare with PyTorch; installs Debian's (600 MB) and makes a virtual environment in build/
# make test-long  kills and damages at 50 random moments instead of a few
# make test-san   tests under address+undefined, threads under thread     make format
# Variables: OPT=-O2  SAN=address,undefined  V=1  WERROR=1  DNNL=auto|yes|no  (or in local.mk)
OPT  ?= -O2
DNNL ?= auto
-include local.mk

# The include order inside engine/: a module may include only modules that stand earlier.
ENGINE_ORDER := err buf file rng spec gate gen hub profile param shard loader audit corpus \
  safetensors ckpt runlog run control model count flops budget ledger solve variant confound weights optim changes sampler eval probe restore \
  trainer cost host layer_log follow verdict cli

PKGS     := ncursesw yaml-0.1 zlib jansson openblas
TESTPKGS := $(if $(filter bench check build-tests run-test test-san,$(MAKECMDGOALS)),cmocka vterm)
NO_BUILD := deps clean format
ifeq ($(filter $(NO_BUILD) demo test parity,$(MAKECMDGOALS)),)
  MISSING := $(if $(shell command -v pkg-config),$(foreach p,$(PKGS) $(TESTPKGS),$(shell pkg-config --exists $(p) || echo $(p))),pkg-config)
  ifneq ($(strip $(MISSING)),)
    $(error missing: $(MISSING). Install with: make deps   (or: $(shell .ci/deps --print)))
  endif
endif

comma := ,
B     := build/$(if $(SAN),$(subst $(comma),-,$(SAN)),release)
WARN  := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wwrite-strings -Wvla
# -fno-math-errno -fno-trapping-math keep NaN checks, unlike -ffast-math
CFLAGS   += -std=c11 -g $(OPT) $(WARN) -fopenmp -fno-math-errno -fno-trapping-math $(if $(WERROR),-Werror)
CPPFLAGS += -I. -D_GNU_SOURCE $(shell pkg-config --cflags $(PKGS) 2>/dev/null)
LDLIBS   += $(shell pkg-config --libs $(PKGS) 2>/dev/null) -lm -lpthread
# oneDNN has no pkg-config file: probe by compiling
ifneq ($(DNNL),no)
  HAVE_DNNL := $(shell echo 'int dnnl_sgemm(void); int main(void){return 0*dnnl_sgemm();}' | $(CC) -x c - -ldnnl -o /dev/null 2>/dev/null && echo 1)
  ifeq ($(DNNL)$(HAVE_DNNL),yes)
    $(error DNNL=yes but libdnnl was not found. Install with: make deps)
  endif
endif
CPPFLAGS += -DHAVE_DNNL=$(if $(HAVE_DNNL),1,0)
LDLIBS   += $(if $(HAVE_DNNL),-ldnnl)
ifneq ($(SAN),)
  CFLAGS  += -fsanitize=$(SAN) -fno-sanitize-recover=all -fno-omit-frame-pointer
  LDFLAGS += -fsanitize=$(SAN)
endif
hash := \#
HAVE_OPENMP := $(shell echo '$(hash)include <omp.h>' | $(CC) -fopenmp -fsyntax-only -x c - 2>/dev/null && echo 1)
ifeq ($(HAVE_OPENMP)$(filter $(NO_BUILD) demo test parity,$(MAKECMDGOALS)),)
  $(error '$(CC)' has no OpenMP. Install it (for clang: apt-get install libomp-dev) or use CC=gcc)
endif
Q := $(if $(V),,@)

LIBSRC  := $(filter-out tui/main.c,$(wildcard tui/*.c)) $(wildcard engine/*.c kernels/*.c)
LIBOBJ  := $(LIBSRC:%=$(B)/%.o) $(B)/profile_default.c.o
TESTS   := $(patsubst %.c,$(B)/%,$(wildcard tests/t_*.c))
TESTLIB := $(patsubst %,$(B)/%.o,$(filter-out tests/t_% tests/bench_%,$(wildcard tests/*.c)))
BENCHES := $(patsubst %.c,$(B)/%,$(wildcard tests/bench_*.c))

all: $(B)/lathe $(if $(SAN),,lathe)
lathe: $(B)/lathe ; @ln -f $< $@ 2>/dev/null || cp $< $@
$(B)/lathe: $(B)/tui/main.c.o $(LIBOBJ) ; $(link)
$(TESTS): $(B)/tests/t_%: $(B)/tests/t_%.c.o $(TESTLIB) $(LIBOBJ) ; $(link) -lcmocka -lvterm -lutil
$(BENCHES): $(B)/tests/bench_%: $(B)/tests/bench_%.c.o $(TESTLIB) $(LIBOBJ) ; $(link) -lcmocka -lvterm -lutil
define link
@echo '  LD   $@'
$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.o,$^) $(LDLIBS)
endef
$(B)/%.c.o: %.c $(B)/flags
	@mkdir -p $(@D); echo '  CC   $<'
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<
# the default profile travels inside the program
$(B)/profile_default.c: profiles/demo/crown.yaml
	@mkdir -p $(@D)
	@{ echo '#include "engine/profile.h"'; echo 'const char profile_default_yaml[] ='; \
	  sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/.*/"&\\n"/' $<; echo ';'; } > $@
$(B)/profile_default.c.o: $(B)/profile_default.c
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<
$(B)/flags: FORCE
	@mkdir -p $(@D); echo '$(CC) $(CPPFLAGS) $(CFLAGS) $(LDLIBS)' > $@.new; \
	  cmp -s $@.new $@ && rm $@.new || mv $@.new $@

deps: ; @.ci/deps
demo: ; @.ci/deps && $(MAKE) --no-print-directory run-demo
test: ; @.ci/deps && $(MAKE) --no-print-directory run-test
parity: ; @.ci/deps && $(MAKE) --no-print-directory run-parity
run-demo: all ; @tests/demo.sh
run-test: all $(TESTS) ; @tests/run.sh $(B) $(T)
build-tests: all $(TESTS)
# an own PyTorch implementation of every architecture judges lathe: tests/parity/parity.py
run-parity: all
	@tests/parity/setup.sh build/parity-venv && build/parity-venv/bin/python -B tests/parity/parity.py
test-long: ; @LATHE_TEST_KILLS=50 $(MAKE) --no-print-directory T="t_faults t_changes" test
# thread: with one OpenMP thread, because that runtime is not instrumented and reports false races
test-san:
	@$(MAKE) --no-print-directory SAN=address,undefined OPT=-O1 run-test
	@OMP_NUM_THREADS=1 $(MAKE) --no-print-directory SAN=thread OPT=-O1 \
	  T="t_trainer t_host t_control t_changes" run-test
bench: all $(BENCHES) ; @for b in $(BENCHES); do $$b || exit 1; done

check: check-layers check-headers check-warnings
check-layers:
	@! grep -nE '#include "(tui|engine|tests)/' kernels/*
	@! grep -nE '#include "(tui|tests)/' engine/*
	@! grep -nE '#include "(kernels|tests)/' tui/* | grep -v kernels/bug.h
	@! grep -lE 'curses\.h|term\.h>' tui/* engine/* | grep -v '^tui/term\.c$$'
	@awk -v order="$(ENGINE_ORDER)" -f tests/layers.awk engine/*.[ch]
check-headers:
	@for h in $(wildcard tui/*.h engine/*.h kernels/*.h); do \
	  echo "#include \"$$h\"" | $(CC) $(CPPFLAGS) $(CFLAGS) -Werror -fsyntax-only -x c - || exit 1; done
check-warnings:
	@for cc in gcc clang; do command -v $$cc >/dev/null || { echo "  SKIP $$cc: not installed"; continue; }; \
	  for f in $(filter-out %.h,$(LIBSRC)) tui/main.c $(wildcard tests/*.c); do \
	    $$cc $(CPPFLAGS) $(filter-out -fopenmp,$(CFLAGS)) -Wno-unknown-pragmas -Werror -fsyntax-only $$f || exit 1; done; \
	  echo "  OK   no warnings with $$cc"; done
format: ; clang-format -i tui/*.[ch] engine/*.[ch] kernels/*.[ch] tests/*.[ch]
clean: ; rm -rf build lathe
-include $(wildcard $(B)/*/*.d)
.PHONY: all deps demo test parity run-demo run-parity run-test build-tests test-long test-san bench check \
  check-layers check-headers check-warnings format clean FORCE
.DELETE_ON_ERROR:
.SECONDARY:
