# Per evaluation and layer of a gated run, as CSV:
#   zcat runs/RUN/metrics.jsonl.gz | jq -rs -f studies/gates/table.jq
def row: map(if type == "number" then . * 1e6 | round / 1e6 else . end) | @csv;
(["step", "layer", "gate/mean", "gate/var", "gate/sparsity", "reg/alpha", "reg/beta", "val/loss"] | @csv),
(reduce .[] as $r ({a: null, rows: []};
   if $r["reg/alpha"] then .a = $r
   elif $r["gate/mean"] and $r["val/loss"] then .a as $t | .rows += [$r | . as $e
     | range(0; $e["gate/mean"] | length) as $i
     | [$e.step, $i, $e["gate/mean"][$i], $e["gate/var"][$i], $e["gate/sparsity"][$i],
        ($t["reg/alpha"][$i] // 0), ($t["reg/beta"][$i] // 0), $e["val/loss"]]]
   else . end) | .rows[] | row)
