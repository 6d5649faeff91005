# MNIST and CIFAR-10 lie where $SKINNY_DATA says, in their official files. Two cores: two runs at a
# time, one thread each.

# The search, on 5,000 held-out training images; no test image is looked at.
sweep() {
  skinny sweep "$@" --runs search --set val_size=5000 --set dropout=0 --set epochs=30 \
    --set batch_size=32 --set lr=0.05 --set eval_every=30
}
both() {
  sweep mnist-quick --set name=mnist-search --set width=0.5 "$@"
  sweep cifar10-quick --set name=cifar10-search --set width=0.25 --set augment=flip "$@"
}
few() {
  both --seeds 100 101 102 --set train_size=300 --set weight_decay=0.002 --set r0=0.5 "$@"
}
few --set budget=uniform --set method=dense,sdnn --set sparsity=0.5,0.8 --set dense=3 \
  --set sparse=12
few --set budget=uniform --set method=sdnn --set sparsity=0.5 --set dense=3 --set sparse=12 \
  --set restart_lr=true
few --set budget=uniform --set method=sdnn --set sparsity=0.5 --set dense=3 --set sparse=12 \
  --set reset_momentum=true
few --set budget=uniform --set method=sdnn --set sparsity=0.5 --set dense=6 --set sparse=9
more() { both --set train_size=1000 --set dense=3 --set sparse=12 "$@"; }
more --seeds 100 --set budget=uniform --set method=dense,sdnn --set sparsity=0.5,0.9 --set r0=0.5 \
  --set weight_decay=0.0005,0.002
more --seeds 100 101 --set weight_decay=0.002 --set budget=uniform --set method=sdnn \
  --set sparsity=0.9 --set r0=0.9 --set restart_lr=false,true
more --seeds 100 101 --set weight_decay=0.002 --set budget=erk --set method=sdnn \
  --set sparsity=0.9 --set r0=0.5,0.9
sweep mnist-quick --set name=mnist-search --set width=0.5 --set train_size=1000 --set dense=3 \
  --set sparse=12 --seeds 100 --set weight_decay=0.002 --set budget=uniform --set method=sdnn \
  --set sparsity=0.5,0.9 --set r0=0.5 --set restart_lr=true

# Its second half, made after most of the experiments below: number of cycles, ERK against dense
# training, weights restored to their last values, and much longer training without weight decay.
three() {
  both --seeds 100 101 102 --set train_size=1000 --set weight_decay=0.002 --set r0=0.5 "$@"
}
three --set method=sdnn --set budget=erk --set sparsity=0.9 --set dense=1 --set sparse=4
three --set method=sdnn --set budget=erk --set sparsity=0.9 --set dense=2 --set sparse=8
three --set method=sdnn --set budget=erk --set sparsity=0.9 --set dense=3 --set sparse=12
three --set method=dense
three --set method=sdnn --set budget=erk --set sparsity=0.5 --set dense=3 --set sparse=12
half() { few --set method=sdnn --set sparsity=0.5 "$@"; }
half --set budget=erk --set dense=3 --set sparse=12
half --set budget=uniform --set dense=1 --set sparse=4
half --set budget=uniform --set dense=3 --set sparse=12 --set restore=last
long() {
  skinny sweep "$@" --runs search --seeds 100 101 102 --set val_size=5000 --set dropout=0 \
    --set epochs=90 --set batch_size=32 --set lr=0.05 --set eval_every=90 --set train_size=300 \
    --set weight_decay=0 --set budget=uniform --set method=dense,sdnn --set sparsity=0.5,0.8 \
    --set r0=0.5 --set dense=10 --set sparse=35
}
long mnist-quick --set name=mnist-search --set width=0.5
long cifar10-quick --set name=cifar10-search --set width=0.25 --set augment=flip

# Last: other learning rates, after the tuned methods below had called for it, and
# networks twice as wide.
rates() {
  set -- "$@" --runs search --seeds 100 101 102 --set val_size=5000 --set dropout=0 \
    --set epochs=30 --set batch_size=32 --set eval_every=30 --set train_size=1000 \
    --set weight_decay=0.002 --set r0=0.5
  skinny sweep mnist-quick --set name=mnist-search --set width=0.5 "$@"
  skinny sweep cifar10-quick --set name=cifar10-search --set width=0.25 --set augment=flip "$@"
}
rates --set method=sdnn --set budget=erk --set sparsity=0.9 --set dense=3 --set sparse=12 \
  --set lr=0.1,0.2
rates --set method=sdnn --set budget=erk --set sparsity=0.5 --set dense=3 --set sparse=12 \
  --set lr=0.1
rates --set method=dense --set lr=0.1
wide() {
  sweep "$@" --seeds 100 101 102 --set train_size=300 --set weight_decay=0.002 \
    --set budget=uniform --set method=dense,sdnn --set sparsity=0.5 --set dense=3 --set sparse=12
}
wide mnist-quick --set name=mnist-search --set width=1
wide cifar10-quick --set name=cifar10-search --set width=0.5 --set augment=flip

# After all of these: thresholding at once or from the default r0, with a timeline's own spans, by
# ERK; and with one threshold over all layers, with the spans above too.
last() {
  both --seeds 100 101 102 --set train_size=1000 --set weight_decay=0.002 --set method=sdnn \
    --set restart_lr=false "$@"
}
own() { last --set dense=none --set sparse=none "$@"; }
for sparsity in 0.9 0.95; do
  own --set budget=erk --set sparsity=$sparsity --set r0=$sparsity,none
  last --set budget=global --set sparsity=$sparsity --set r0=$sparsity,none
done
own --set budget=global --set sparsity=0.9,0.95 --set r0=none
own --set budget=global --set sparsity=0.95 --set r0=0.95

# The experiments at the scale `small`, with the settings the search led to.
for data in mnist cifar10; do
  for experiment in progressive random baselines reinit figure2 figure1; do
    skinny reproduce $experiment --data $data --scale small --runs runs
  done
done
skinny reproduce table3 --scale small --runs runs
skinny reproduce table1 --scale small --runs runs
skinny reproduce tuned --data cifar10 --scale small --runs runs

# The records that are kept of the runs. This page is made of them:
for data in mnist cifar10; do
  skinny record search/$data-search-* --into results/records/$data-search.jsonl
  skinny record runs/$data-small-* --into results/records/$data-small.jsonl
done
python results/write.py
