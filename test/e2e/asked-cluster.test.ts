/**
 * One cluster, and who asks it. Each file begins with policies of its own; the last one leaves
 * nodes that are silent.
 */
import './asked-cluster/node-metrics.test.ts';
import './asked-cluster/node-flows.test.ts';
import './asked-cluster/console-server.test.ts';
import './asked-cluster/console-browser.test.ts';
import './asked-cluster/plugin-executable.test.ts';
import './asked-cluster/on-call.test.ts';
import './asked-cluster/node-data.test.ts';
