import type { Config } from '../apis/config.ts';
import { agentLock } from './agentlock.ts';
import type { AgentOptions } from './agentoptions.ts';
import { CommandError, EXIT, type ExitStatus } from './exit.ts';
import { keepInterfaceGroups, releaseInterfaceGroups } from './interfacegroups.ts';
import { loadAddon, withKernel } from './kernel.ts';
import { loadConfig } from './load.ts';
import { createLog, type Log } from './log.ts';
import { untilStopped } from './stopped.ts';

/** Checks the options, takes the lock, and runs the agent until it is told to stop. Rules stay. */
export async function agentCommand(options: AgentOptions): Promise<ExitStatus> {
  if (options.controller !== undefined) {
    throw new CommandError(
      EXIT.usage,
      '--controller: this version has no controller to follow; use --manifests DIR',
    );
  }
  const { manifests } = options;
  if (manifests === undefined) throw new CommandError(EXIT.usage, 'give --manifests DIR');
  const config = await loadConfig(options.config);
  const enabled = isEnabled(options.featureGates, config);
  const log = createLog(options);
  await loadAddon();
  const release = await agentLock(options.stateDir).take(log);
  try {
    log.info('starting', { node: options.node, manifests, stateDir: options.stateDir, enabled, config });
    if (!enabled) return await disabled(options, config, log);
    const { runStandalone } = await import('./standalone.ts');
    // Before the first rule is applied: what it exempts must be in its group.
    const interfaces = await keepInterfaceGroups({ options, config, log });
    try {
      return await withKernel((kernel) =>
        runStandalone({ options, manifests, config, log, kernel, interfaces }),
      );
    } finally {
      await interfaces.close();
    }
  } finally {
    release();
  }
}

/** The feature gate: the command line, else the configuration, else on, because manifests were given. */
function isEnabled(gates: string | undefined, config: Config): boolean {
  if (gates === undefined) return config.featureGates.NodeNetworkPolicy ?? true;
  let enabled = true;
  for (const gate of gates.split(',')) {
    const match = /^NodeNetworkPolicy=(true|false)$/.exec(gate.trim());
    if (match === null) {
      throw new CommandError(
        EXIT.usage,
        `--feature-gates: ${JSON.stringify(gate)}: must be NodeNetworkPolicy=true or NodeNetworkPolicy=false`,
      );
    }
    enabled = match[1] === 'true';
  }
  return enabled;
}

/** Gate off: nothing is enforced and the table goes. The process stays, as a service manager expects of it. */
async function disabled(options: AgentOptions, config: Config, log: Log): Promise<ExitStatus> {
  const { removeTable } = await import('../agent/apply/remove.ts');
  const removed = await withKernel(removeTable);
  const { interfaces } = await releaseInterfaceGroups(options.stateDir, config, log);
  log.info('disabled', { node: options.node, removed, interfaces, gate: 'NodeNetworkPolicy=false' });
  if (!options.once) await untilStopped();
  return EXIT.done;
}
