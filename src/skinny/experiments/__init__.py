"""Many runs: grids of configs, the paper's experiments, statistics over seeds, the report."""
