/**
 * Loads the code of agents and controllers once, so that its compiled form is in
 * NODE_COMPILE_CACHE: processes that are killed leave nothing there, and tests kill most of them.
 */
import '../agent/dataplane/dataplanes.ts';
import '../agent/receive/api-server.ts';
import '../agent/run/cluster-agent.ts';
import '../agent/run/prometheus.ts';
import '../cli/agent.ts';
import '../cli/cluster-run.ts';
import '../cli/controller.ts';
import '../cli/program.ts';
import '../cli/standalone.ts';
import '../controller/run/controller.ts';
