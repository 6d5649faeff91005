"""IHT in the trainers that people use: one file each, behind an extra of the same name."""
