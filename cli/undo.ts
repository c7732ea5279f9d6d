import { CommandError, EXIT, type ExitStatus } from '../lib/process/exit.ts';
import { hasKubeconfig } from './kube-config.ts';
import { json, print } from './output.ts';
import { listPolicies, type RolloutOptions, steerRollout, withApi } from './rollout.ts';
import { toShown } from './rollout-text.ts';
import { waysBack, waysBackText } from './undo-text.ts';

export interface UndoOptions extends RolloutOptions {
  /** The rollout of this group. */
  readonly group?: string;
  readonly machine: boolean;
  readonly stateDir: string;
}

/**
 * `nodewall undo`: of a policy or a group as `nodewall rollout undo`; without one prints what can
 * be undone, and how. Where there is no kubeconfig, or with `--machine`, of this machine.
 *
 * @param program as its users call it
 */
export async function undoCommand(
  policy: string | undefined,
  options: UndoOptions,
  program: string,
): Promise<ExitStatus> {
  const { group, output } = options;
  if (policy !== undefined && group !== undefined)
    throw new CommandError(EXIT.usage, 'give either a policy or --group, not both');
  if (options.machine || !hasKubeconfig(options.kubeconfig)) {
    if (group !== undefined)
      throw new CommandError(EXIT.usage, '--group: rollouts are of clusters, not of a machine');
    return await (await import('./undo-machine.ts')).undoOnMachine(policy, options);
  }
  if (policy !== undefined) return await steerRollout('undo', policy, options);
  if (group !== undefined) return await steerRollout('undo', await memberOf(group, options), options);
  return await withApi(options, async (request) => {
    const ways = waysBack(await listPolicies(request), program);
    await print(output === 'json' ? json(ways) : waysBackText(ways, program));
    return EXIT.done;
  });
}

/** A policy of the group: a command for one is for all. */
async function memberOf(group: string, options: UndoOptions): Promise<string> {
  let found: string | undefined;
  await withApi(options, async (request) => {
    const rollouts = (await listPolicies(request)).flatMap((one) => toShown(one) ?? []);
    found = rollouts.find((one) => one.group === group)?.policy;
    return EXIT.done;
  });
  if (found !== undefined) return found;
  throw new CommandError(
    EXIT.invalid,
    `--group: no rollout has the group ${JSON.stringify(group)}; nodewall rollout status shows all`,
  );
}
