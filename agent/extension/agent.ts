import type { Config } from '../../apis/config.ts';
import type { CheckLine } from '../../lib/process/check-line.ts';
import type { AgentMetrics } from '../run/agent-metrics.ts';
import type { PreparedExtension, PrepareOptions } from './agent-extension.ts';

/** Fills the port of a running agent. With the feature gate off, little of it is loaded. */
export async function prepareExtension(options: PrepareOptions): Promise<PreparedExtension> {
  const { prepareEgress } = await import('../egress/prepare-egress.ts');
  return await prepareEgress(options);
}

/** Adds the series of the extension, before it does anything; they may be there. */
export async function extendMetrics(metrics: AgentMetrics): Promise<void> {
  const { egressMetrics } = await import('../egress/egress-metrics.ts');
  metrics.extend(egressMetrics);
}

/** Whether it finds this machine as it needs it (agent/check/machine-check.ts). */
export async function checkExtension(options: {
  readonly config: Config;
  readonly root: string;
}): Promise<readonly CheckLine[]> {
  const { EGRESS_CHECKS } = await import('../egress/egress-checks.ts');
  return (await Promise.all(Object.values(EGRESS_CHECKS).map((check) => check(options)))).flat();
}
