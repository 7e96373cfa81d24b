set location -/mnt/a
