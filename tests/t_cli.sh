#!/bin/sh
# Black-box commands in a fresh directory, TAP output. $LATHE is the program.
set -u
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
export LATHE_RUNS=$dir/runs LATHE_DATA=$dir/data
n=0 bad=0

# check NAME EXIT_CODE TEXT COMMAND…: the code must match and TEXT stand in stdout or stderr
check() {
    name=$1 code=$2 text=$3
    shift 3
    n=$((n + 1))
    "$@" >"$dir/out" 2>&1
    got=$?
    if [ $got -eq "$code" ] && grep -qF -- "$text" "$dir/out"; then
        echo "ok $n - $name"
    else
        bad=$((bad + 1))
        echo "not ok $n - $name"
        echo "# exit $got, expected $code with '$text':"
        sed 's/^/# /' "$dir/out"
    fi
}

demo=profiles/demo/crown.yaml
seq 1 4000 | awk '{ print "word " $1 * $1 % 97 " of line " $1; if ($1 % 8 == 0) print "" }' >"$dir/text"

check counts_are_printed 0 '"total": 181906688' "$LATHE" count profiles/A/crown18.yaml --json
check cost_is_predicted 0 'tokens/s' "$LATHE" cost "$demo" --set train.micro_batch_size=1 --set train.global_batch_size=1 --set train.seq_len=32
check cost_says_what_does_not_fit 3 'does not fit: the model needs' "$LATHE" cost profiles/openelm/3B.yaml --set train.micro_batch_size=4096 --set train.global_batch_size=4096
check cost_wants_a_known_backend 1 "backend 'abacus' is not available" "$LATHE" cost "$demo" --backend abacus
crown18=profiles/A/crown18.yaml
# 181,906,688 less three steps of 589,824
check solve_reports_its_residual 0 '+137,216 (+0.076%)' "$LATHE" solve $crown18 --params 180M --out "$dir/s.yaml"
check solve_writes_a_profile 0 '180,137,216  total' "$LATHE" count "$dir/s.yaml"
check hub_configurations_are_counted 0 '134,515,008  total' "$LATHE" count tests/hub/SmolLM2-135M/config.json
check their_differences_are_warnings 0 'warning: rotary_pct: 0.25' "$LATHE" check tests/hub/pythia-160m/config.json
check they_are_solved 0 'name: SmolLM2-135M' "$LATHE" solve tests/hub/SmolLM2-135M/config.json --params 130M
printf '{"model_type": "qwen2"}' >"$dir/q.json"
check what_cannot_be_said_is_named 1 'q.json:1:2: model_type' "$LATHE" count "$dir/q.json"
check solve_matches_another 0 '181,107,456 of base12' "$LATHE" solve $crown18 --match profiles/A/base12.yaml --out "$dir/s.yaml"
check solve_prints_json 0 '"residual": 137216.0' "$LATHE" solve $crown18 --params 180M --json
check solve_by_tokens 0 'one optimizer step' "$LATHE" solve $crown18 --train-flops 5e18 --out "$dir/s.yaml"
check solve_says_no 3 'at the least' "$LATHE" solve $crown18 --params 2M --out "$dir/s.yaml"
check solve_of_locked_layers_says_no 3 'all layers are locked' "$LATHE" solve $crown18 --params 180M --lock 0-17
check solve_wants_one_budget 2 'one budget at a time' "$LATHE" solve $crown18 --params 180M --flops 300M
check solve_wants_a_budget 2 'what is the budget' "$LATHE" solve $crown18
check solve_knows_its_layers 2 'that the profile has' "$LATHE" solve $crown18 --params 180M --lock 3,18
check solve_knows_its_ways 2 'ffn, heads, depth' "$LATHE" solve $crown18 --params 180M --by magic
base18=profiles/A/base18.yaml
check grid_of_a_budget 0 '3392       180,511,488   +0.284%' "$LATHE" grid $base18 --params 180M --set model.ffn_step=64
check grid_writes_profiles 0 '180,511,488  total' sh -c '"$1" grid '"$base18"' --params 180M --set model.ffn_step=64 --out "$2/g" >"$2/g.txt" && "$1" count "$2/g/base18-u12x3392-h6.yaml"' - "$LATHE" "$dir"
check grid_prints_json 0 '"ffn_width": 3392' "$LATHE" grid $base18 --params 180M --set model.ffn_step=64 --json
check grid_axes_are_numbers 2 'numbers like 12' "$LATHE" grid $base18 --depths 12,x
check shape_reverses 0 'name: lws18-reverse' "$LATHE" shape profiles/A/lws18.yaml --reverse
check shape_wants_one_way 2 'give one of' "$LATHE" shape profiles/A/lws18.yaml --reverse --average
check symmetric_shapes_say_no 3 'symmetric' "$LATHE" shape $crown18 --reverse
check diff_names_the_confound 0 'depth differs: 12 and 18 layers' "$LATHE" diff profiles/A/base12.yaml $crown18
check diff_may_refuse 3 '"severe": true' "$LATHE" diff profiles/A/base12.yaml $crown18 --strict --json
check plain_counts_the_profiles 0 'parameters' "$LATHE" --plain profiles/demo/crown.yaml
check plain_lists_runs 0 'step  done' "$LATHE" --plain --runs "$dir"
check fps_has_limits 2 'expected --fps 0.1 to 30' "$LATHE" --fps 100
check diff_of_one_design 0 'nothing differs' "$LATHE" diff $base18 $base18 --strict
check diff_of_shapes_alone 0 'nothing but the shape differs' "$LATHE" diff $base18 $crown18 --strict
check full_disk_is_no_answer 1 'could not be written' sh -c '"$LATHE" count profiles/A/crown18.yaml >/dev/full'
check closed_output_is_no_answer 1 'could not be written' sh -c '"$LATHE" show profiles/A/crown18.yaml >&-'
check unknown_command_has_a_neighbour 2 "did you mean 'train'" "$LATHE" tran
check far_words_have_none 2 "unknown command 'frobnicate'" "$LATHE" frobnicate
check help_knows_families 0 'usage: lathe data audit' "$LATHE" help data
check unknown_option_is_usage 2 "unknown option '--jsn'" "$LATHE" count "$demo" --jsn
check unknown_key_has_a_neighbour 3 "did you mean 'd_model'" "$LATHE" check "$demo" --set model.d_modl=3
check missing_profile_is_input 1 'no/such.yaml' "$LATHE" count no/such.yaml
check missing_data_is_named 1 'names no data.train' "$LATHE" train profiles/A/crown18.yaml
check text_becomes_tokens 0 'documents' "$LATHE" data prepare "$dir/text" --out "$dir/data/t" --val-share 5%
set -- --set data.train=t/train.bin --set data.val=t/val.bin --set train.threads=1 \
    --set train.seq_len=32 --set model.d_model=32 --set model.n_layers=2
check small_vocabulary_is_refused 1 'beyond the vocabulary' "$LATHE" train "$demo" "$@" --set model.vocab=100 --set model.vocab_pad=1
probe() { "$LATHE" probe "$demo" "$@" --set train.micro_batch_size=2; }
check probe_writes_a_file 0 '"loss_total"' probe "$@" --tokens t/train.bin --out "$dir/p1" --json
check probe_takes_its_own_weights 0 'loss ' probe "$@" --tokens t/train.bin --weights "$dir/p1" --out "$dir/p2"
check probes_are_reproducible 0 'same' sh -c 'cmp "$1" "$2" && echo same' - "$dir/p1" "$dir/p2"
check coefficients_can_be_set 0 "gates' regulariser" probe "$@" --tokens t/train.bin --out "$dir/p3" \
    --set gate.enabled=true --set 'gate.alpha=[0.5, 0.5]' --set gate.beta=-1
check probe_wants_tokens 2 '--tokens FILE is missing' probe "$@" --out "$dir/p4"
check init_only_takes_no_tokens 2 'takes neither' probe "$@" --init-only --tokens t/train.bin --out "$dir/p4"
check probe_of_missing_tokens 1 "'none.bin' not found" probe "$@" --tokens none.bin --out "$dir/p4"
check probe_needs_a_known_backend 1 'expected cpu or ref' probe "$@" --init-only --backend none --out "$dir/p4"
check hard_gates_are_refused 1 'train with key' "$LATHE" train "$demo" "$@" --set gate.enabled=true --set gate.attn=hard
check a_refused_start_leaves_nothing 0 'no runs' "$LATHE" runs
check training_ends_with_a_perplexity 0 'bits per byte' "$LATHE" train "$demo" "$@" --set train.max_steps=4 --run r1
eval_log() { "$LATHE" watch "$1" --json | grep -o '"val/loss":[0-9.]*' | tail -n 1 | cut -c 1-18; }
check eval_says_over_what 0 'windows of 32; ' "$LATHE" eval r1
check eval_repeats_the_runs_own 0 "$(eval_log r1 | sed 's/:/: /')" "$LATHE" eval r1 --json
check eval_with_longer_windows 0 'windows of 64' "$LATHE" eval r1 --seq-len 64
check eval_with_a_stride 0 'mean of their means, one each 128' "$LATHE" eval r1 --stride 128 --avg chunk
check eval_refuses_overlap 1 'shorter than the windows' "$LATHE" eval r1 --stride 8
check eval_of_no_run 1 "no run" "$LATHE" eval r9
check eval_of_no_such_step 1 'no checkpoint of step 3' "$LATHE" eval r1 --step 3
check eval_of_missing_data 1 "none.bin" "$LATHE" eval r1 --data none.bin
check eval_wants_numbers 2 'whole number from 1' "$LATHE" eval r1 --max-tokens 0
check text_is_sampled 0 'word of' "$LATHE" sample r1 --prompt 'word of' --tokens 20
check sampling_repeats_itself 0 same sh -c '"$1" sample r1 --seed 5 --no-stop >"$2/s1" && "$1" sample r1 --seed 5 --no-stop >"$2/s2" && cmp "$2/s1" "$2/s2" && echo same' - "$LATHE" "$dir"
check other_seeds_differ 1 'differ' sh -c '"$1" sample r1 --seed 6 --no-stop >"$2/s2"; cmp "$2/s1" "$2/s2"' - "$LATHE" "$dir"
# one line per id: 50 and the end of text before them
check samples_have_a_length 0 '51' sh -c '"$1" sample r1 --tokens 50 --no-stop --json | grep -c "^    [0-9]"' - "$LATHE"
check ids_go_in_and_out 0 ' ' "$LATHE" sample r1 --prompt-ids 104,105 --tokens 8 --temperature 0
check ids_are_of_the_vocabulary 2 'ids 0 to 256' "$LATHE" sample r1 --prompt-ids 104,257
check sample_takes_one_prompt 2 'one prompt' "$LATHE" sample r1 --prompt a --prompt-ids 1
check sample_refuses_cold 2 'number from 0' "$LATHE" sample r1 --temperature -1
check mixtures_train 0 'bits per byte' "$LATHE" train profiles/demo/mixture.yaml --set data.train=t/train.bin --set data.val=t/val.bin \
    --set train.threads=1 --set train.seq_len=32 --set train.max_steps=3 --set model.pos=learned --run mix
check mixtures_are_sampled 0 '"logprob"' "$LATHE" sample mix --tokens 20 --json --temperature 0.5 --top-k 5
check learned_positions_end 1 'leaves room for --tokens 30' "$LATHE" sample mix --prompt ab --tokens 200
check gated_runs_tell_their_sparsity 0 'mean over layers' "$LATHE" eval mix
check other_vocabularies_have_no_text 1 'give the prompt as --prompt-ids' sh -c '"$1" train "$2" --set data.train=t/train.bin --set data.val=t/val.bin --set train.threads=1 --set train.seq_len=32 --set train.max_steps=1 --set model.vocab=300 --run other >/dev/null && "$1" sample other --prompt a' - "$LATHE" "$demo"
check runs_lists_it_done 0 '"state": "done"' "$LATHE" runs --json
check a_done_run_does_not_resume 1 'r1' "$LATHE" train --resume r1
check diverging_is_a_failed_run 4 'first bad tensor' "$LATHE" train "$demo" "$@" --set train.max_steps=40 --set optim.lr=100 --set optim.max_norm=0 --set optim.eps=1e-20 --set optim.warmup_steps=0 --set model.init_std=10
check deleting_asks 2 '--yes' sh -c '"$LATHE" delete r1 </dev/null'
check deleting_moves_to_the_trash 0 'r1' "$LATHE" delete r1 --yes
echo "1..$n"
exit $bad
