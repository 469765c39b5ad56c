#include "tests/t.h"

#include "tui/keys.h"

static void every_key_reaches_its_command(void **state)
{
    (void)state;
    for (int i = 0; i < key_table_count; i++) {
        const struct key_binding *b = &key_table[i];
        int keys[] = {b->key, b->key2, b->key3};

        for (int k = 0; k < 3; k++)
            if (keys[k])
                assert_int_equal(keys_find(b->context, keys[k]), b->command);
    }
}

static void no_key_is_bound_twice_in_a_context(void **state)
{
    (void)state;
    for (int i = 0; i < key_table_count; i++) {
        const struct key_binding *a = &key_table[i];
        int keys[] = {a->key, a->key2, a->key3};

        for (int j = 0; j < key_table_count; j++) {
            const struct key_binding *b = &key_table[j];

            for (int k = 0; k < 3; k++)
                if (i != j && keys[k] && a->context == b->context &&
                    (keys[k] == b->key || keys[k] == b->key2 || keys[k] == b->key3))
                    fail_msg("%s is bound to '%s' and '%s'", a->keys, a->help, b->help);
        }
    }
}

static void every_command_has_a_key(void **state)
{
    bool bound[CMD_COUNT] = {0};

    (void)state;
    for (int i = 0; i < key_table_count; i++)
        bound[key_table[i].command] = true;
    for (int cmd = CMD_NONE + 1; cmd < CMD_COUNT; cmd++)
        if (!bound[cmd])
            fail_msg("command %d has no key", cmd);
}

static void global_keys_work_in_every_context_unless_taken(void **state)
{
    (void)state;
    for (int ctx = CTX_GLOBAL; ctx < CTX_COUNT; ctx++) {
        assert_int_equal(keys_find((enum context)ctx, '?'), CMD_HELP);
        assert_int_equal(keys_find((enum context)ctx, '2'), CMD_SCREEN_MONITOR);
        assert_int_equal(keys_find((enum context)ctx, 'q'), CMD_QUIT);
    }
    assert_int_equal(keys_find(CTX_RUNS, 'j'), CMD_DOWN);
    assert_int_equal(keys_find(CTX_DESIGN, 'j'), CMD_STEP_DOWN);
    assert_int_equal(keys_find(CTX_RUNS, 'G'), CMD_LAST);
    assert_int_equal(keys_find(CTX_RUNS, K_END), CMD_LAST);
    assert_int_equal(keys_find(CTX_DESIGN, 0), CMD_NONE);
    assert_int_equal(keys_find(CTX_DESIGN, 0x1f600), CMD_NONE);
}

static bool names(const char *shown, int key)
{
    char name[16];
    size_t len = strlen(keys_name(key, name));

    for (const char *at = shown; (at = strstr(at, name)); at++)
        if ((at == shown || at[-1] == ' ') && (at[len] == 0 || at[len] == ' '))
            return true;
    return false;
}

static void what_is_shown_names_the_keys(void **state)
{
    (void)state;
    for (int i = 0; i < key_table_count; i++) {
        const struct key_binding *b = &key_table[i];
        int keys[] = {b->key, b->key2, b->key3};

        assert_true(b->help && b->help[0] && b->group && b->group[0]);
        assert_true(!b->label == (b->rank == 0));
        for (int k = 0; k < 3; k++)
            if (keys[k] && !names(b->keys, keys[k]))
                fail_msg("'%s' does not name key %#x", b->keys, (unsigned)keys[k]);
    }
}

static void every_function_key_has_a_letter(void **state)
{
    (void)state;
    for (int i = 0; i < key_table_count; i++)
        assert_false(key_table[i].key >= K_F1 && key_table[i].key <= K_F10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_key_reaches_its_command),
        cmocka_unit_test(no_key_is_bound_twice_in_a_context),
        cmocka_unit_test(every_command_has_a_key),
        cmocka_unit_test(global_keys_work_in_every_context_unless_taken),
        cmocka_unit_test(what_is_shown_names_the_keys),
        cmocka_unit_test(every_function_key_has_a_letter),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
