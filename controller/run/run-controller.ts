import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { withEgressGroup } from '../../apis/config.ts';
import { systemClock } from '../../lib/process/clock.ts';
import type { ExitStatus } from '../../lib/process/exit.ts';
import { Controller } from './controller.ts';
import type { ControllerContext } from './controller-context.ts';

/**
 * Runs a controller until it is asked to stop and others can continue without it. When the
 * cluster's feature gate EgressGateway changes, another one begins in this process: what a
 * controller watches and compiles depends on the gate from the start.
 */
export async function runController(context: ControllerContext): Promise<ExitStatus> {
  const { given = null, configured = null } = context.egressGate ?? {};
  const { config } = context;
  let hasEgress = given ?? configured ?? false;
  for (;;) {
    const identity = `${hostname()}_${randomUUID()}`;
    const featureGates = { ...config.featureGates, EgressGateway: hasEgress };
    const run = { ...context, config: withEgressGroup({ ...config, featureGates }) };
    const ended = await new Controller(run, { clock: systemClock, random: Math.random, identity }).run();
    if (ended !== 'again') return ended;
    hasEgress = !hasEgress;
  }
}
