#!/bin/sh
# The main job on the embedded default: prepare the corpus once, then open the workbench on the demo
# profile, or train it for a stated number of steps when there is no terminal.
set -eu
steps=${DEMO_STEPS:-300}
[ -e "${LATHE_DATA:-data}/gcide/train.bin" ] || ./lathe data prepare gcide
if [ -t 0 ] && [ -t 1 ]; then
    exec ./lathe profiles/demo/crown.yaml
fi
echo "no terminal: training profiles/demo/crown.yaml for $steps steps"
exec ./lathe train profiles/demo/crown.yaml --set train.max_steps="$steps"
