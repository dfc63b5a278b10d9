"""Never finished with being imported."""

import time

time.sleep(1000)
