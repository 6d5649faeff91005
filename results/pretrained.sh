# MobileNetV2 with its ImageNet weights on Imagenette, whose folder is $IMAGENETTE.
into=results/records/pretrained
for seed in 0 1 2; do
  python examples/prune_pretrained.py train --images $IMAGENETTE --seed $seed --into $into/seed-$seed
  python examples/prune_pretrained.py int8 --images $IMAGENETTE --folder $into/seed-$seed
done
python examples/prune_pretrained.py time --folder $into/seed-0  # alone on a machine
