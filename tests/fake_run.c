#include "tests/fake_run.h"

#include <math.h>
#include <unistd.h>

#include "engine/profile.h"
#include "engine/rng.h"
#include "engine/runlog.h"
#include "tests/t.h"

enum { MAX_LOCKS = 16 };
static int locks[MAX_LOCKS], n_locks;

double fake_run_loss(int64_t step)
{
    return 1.2 + 4.3 / (1 + (double)step / 40) + 0.1 * (rng_uniform(5, (uint64_t)step) - 0.5);
}

static json_t *train_line(int64_t step, double time)
{
    return json_pack("{s:I s:I s:f s:f s:f s:f s:f s:f s:f}", "step", (json_int_t)step, "tokens",
                     (json_int_t)(step * FAKE_TOKENS_PER_STEP), "time", time, "train/loss",
                     fake_run_loss(step), "lr", 3e-3 * cos((double)step / 800), "grad_norm",
                     step == 70 ? 41 : 0.6 + 0.3 * rng_uniform(6, (uint64_t)step), "tokens_per_s",
                     16000 + 500 * rng_uniform(7, (uint64_t)step), "mfu", 0.41, "flops",
                     1e10 * (double)step);
}

static json_t *eval_line(int64_t step, double time)
{
    double loss = fake_run_loss(step) + 0.05;

    return json_pack("{s:I s:I s:f s:f s:f s:f s:I s:f}", "step", (json_int_t)step, "tokens",
                     (json_int_t)(step * FAKE_TOKENS_PER_STEP), "time", time, "val/loss", loss,
                     "val/ppl", exp(loss), "val/bpb", loss / M_LN2, "val/tokens",
                     (json_int_t)262144, "flops", 1e10 * (double)step);
}

static json_t *event_line(int64_t step, double time, const char *kind)
{
    return json_pack("{s:I s:I s:f s:s s:s}", "step", (json_int_t)step, "tokens",
                     (json_int_t)(step * FAKE_TOKENS_PER_STEP), "time", time, "event", kind, "text",
                     "");
}

static void write_log(const char *dir, int64_t from, int64_t to)
{
    struct err err = ERR_INIT;
    char path[600];
    struct runlog *log;

    snprintf(path, sizeof(path), "%s/metrics.jsonl.gz", dir);
    log = runlog_open(path, &err);
    assert_non_null(log);
    for (int64_t step = from + 1; step <= to; step++) {
        double time = run_now() - (double)(to - step) * 0.25;

        runlog_add(log, train_line(step, time));
        if (step % 100 == 0)
            runlog_add(log, eval_line(step, time + 0.1));
        if (step % 200 == 0)
            runlog_add(log, event_line(step, time + 0.2, "checkpoint"));
    }
    assert_int_equal(runlog_close(log, &err), 0);
}

static void write_status(const char *dir, enum run_state state, int64_t step)
{
    struct err err = ERR_INIT;
    struct run_status st;
    int64_t eval = step / 100 * 100;

    assert_int_equal(run_read_status(dir, &st, &err), 0);
    st.state = state;
    st.reason[0] = '\0';
    snprintf(st.phase, sizeof(st.phase), "step");
    st.step = step;
    st.total_steps = FAKE_TOTAL_STEPS;
    st.tokens = step * FAKE_TOKENS_PER_STEP;
    st.total_tokens = FAKE_TOTAL_STEPS * FAKE_TOKENS_PER_STEP;
    st.flops = 1e10 * (double)step;
    st.train_loss = step ? fake_run_loss(step) : NAN;
    st.val_loss = eval ? fake_run_loss(eval) + 0.05 : NAN;
    st.val_ppl = exp(st.val_loss);
    st.val_bpb = st.val_loss / M_LN2;
    st.best_val_loss = st.val_loss;
    st.val_tokens = eval ? 262144 : 0;
    st.lr = step ? 2.6e-3 : NAN;
    st.grad_norm = step ? 0.71 : NAN;
    st.tokens_per_s = step ? 16123 : NAN;
    st.mfu = step ? 0.41 : NAN;
    st.eta_s = step ? (double)(FAKE_TOTAL_STEPS - step) * 0.25 : NAN;
    st.params = 1387264;
    st.checkpoint_step = step >= 200 ? step / 200 * 200 : -1;
    st.elapsed_s = (double)step * 0.25;
    st.heartbeat = run_now();
    st.heartbeat_period = 2;
    st.pid = getpid();
    snprintf(st.host, sizeof(st.host), "%s", run_host_name());
    if (state == RUN_FAILED)
        snprintf(st.reason, sizeof(st.reason),
                 "loss is not a number at step %d; first bad tensor layers.5.ffn.w2; last good "
                 "checkpoint: step %d",
                 (int)step, (int)st.checkpoint_step);
    assert_int_equal(run_write_status(dir, &st, &err), 0);
}

void fake_run_grow(const char *dir, enum run_state state, int64_t from, int64_t to)
{
    write_log(dir, from, to);
    write_status(dir, state, to);
}

void fake_run_record(const char *dir, json_t *line)
{
    struct err err = ERR_INIT;
    char path[600];
    struct runlog *log;

    assert_non_null(line);
    snprintf(path, sizeof(path), "%s/metrics.jsonl.gz", dir);
    log = runlog_open(path, &err);
    assert_non_null(log);
    runlog_add(log, line);
    assert_int_equal(runlog_close(log, &err), 0);
}

void fake_run_make_of(const struct spec *spec, const char *id, enum run_state state, int64_t step,
                      char *dir)
{
    struct err err = ERR_INIT;
    char path[600];

    if (run_create(spec, id, dir, 512, &err) < 0)
        fail_msg("%s", err.text);
    snprintf(path, sizeof(path), "%s/log.txt", dir);
    t_write(path, "12:00:00 reading data\n12:00:01 first step\n");
    if (run_state_is_live(state) && n_locks < MAX_LOCKS) {
        locks[n_locks] = run_lock(dir, &err);
        assert_true(locks[n_locks++] >= 0);
    }
    fake_run_grow(dir, state, 0, step);
}

void fake_run_make(const char *id, enum run_state state, int64_t step, char *dir)
{
    struct spec *spec = calloc(1, sizeof(*spec));
    struct problems p = {.n = 0};

    assert_int_equal(profile_parse("default", profile_default_yaml, strlen(profile_default_yaml),
                                   NULL, 0, spec, &p),
                     0);
    problems_release(&p);
    fake_run_make_of(spec, id, state, step, dir);
    free(spec);
}

void fake_run_unlock(void)
{
    while (n_locks > 0)
        close(locks[--n_locks]);
}
