"""The paper as programs: its numbers, its tables and figures as recipes, records of runs, and its claims."""
