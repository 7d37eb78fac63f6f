"""The demo page: prompts in, every draft tree, decision and number out. Importing it loads no model."""
