"""Many reports beside each other: groups of like hardware, and which node is the odd one."""
