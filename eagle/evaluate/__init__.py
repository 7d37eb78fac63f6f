"""How good a draft head is: τ by task, acceptance by draft step, calibration, agreement on held-out text."""
