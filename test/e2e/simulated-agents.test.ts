/** One controller, and four agents that are simulated. The last file turns the gate off. */
import './simulated-agents/startup-taint.test.ts';
import './simulated-agents/antrea-status.test.ts';
import './simulated-agents/rollout.test.ts';
