import { egressMetrics } from '../egress/egress-metrics.ts';

/** The series of an extension, for AgentMetrics.extend. */
export const EXTENSION_METRICS = egressMetrics;
