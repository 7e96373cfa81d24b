set buffering yes
