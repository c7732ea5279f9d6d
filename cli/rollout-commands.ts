import type { Command } from 'commander';
import { ROLLOUT_COMMANDS, type RolloutCommand } from '../apis/rollout.ts';
import {
  config,
  type Done,
  example,
  kubeconfig,
  outputOption,
  stateDir,
  watchOption,
} from './command-options.ts';

const WHAT: Readonly<Record<RolloutCommand, string>> = {
  pause: 'Begin no further step, until it is resumed.',
  resume: 'Go on; nodes that have failed so far are not counted again.',
  undo: 'Put the last completed version in force on all nodes, until the spec changes.',
  promote: 'Put the new version in force on all nodes at once.',
};

/** `nodewall rollout`: commands about rollouts of policies over nodes; and `nodewall undo`. */
export function addRolloutCommands(program: Command, done: Done): void {
  addUndo(program, done);
  const rollout = program
    .command('rollout')
    .description('Show and steer how new versions of policies go to the nodes of a cluster.')
    .addHelpText('after', example('nodewall rollout status', 'nodewall rollout undo protect-ssh'));
  rollout
    .command('status')
    .description('Print how far the rollout of a policy is, or of all that have one, and why it waits.')
    .argument('[policy]', 'name of the ClusterNetworkPolicy')
    .addOption(watchOption())
    .addOption(kubeconfig())
    .addOption(config())
    .addOption(outputOption('text', 'json'))
    .addHelpText(
      'after',
      example(
        'nodewall rollout status',
        'nodewall rollout status protect-ssh --kubeconfig ~/.kube/config -o json',
      ),
    )
    .action(async (policy, options) =>
      done(await (await import('./rollout.ts')).rolloutStatus(policy, options)),
    );
  for (const command of ROLLOUT_COMMANDS)
    rollout
      .command(command)
      .description(
        `${WHAT[command]} It annotates the policy, and waits until a controller has acted on that.`,
      )
      .argument('<policy>', 'name of the ClusterNetworkPolicy; with a group, of any of its policies')
      .addOption(kubeconfig())
      .addOption(config())
      .addOption(outputOption('text', 'json'))
      .addHelpText('after', example(`nodewall rollout ${command} protect-ssh --kubeconfig ~/.kube/config`))
      .action(async (policy, options) =>
        done(await (await import('./rollout.ts')).steerRollout(command, policy, options)),
      );
}

function addUndo(program: Command, done: Done): void {
  program
    .command('undo')
    .description(
      'Put the last completed version of a policy in force on all nodes, as nodewall rollout undo. Without a policy: print what was changed last, what of it can be undone, and how. Where there is no kubeconfig: the ways back on this machine.',
    )
    .argument('[policy]', 'name of the ClusterNetworkPolicy; with a group, of any of its policies')
    .option('--group <name>', 'the rollout of the policies of this group')
    .option('--machine', 'of this machine, whatever kubeconfig there is', false)
    .addOption(kubeconfig())
    .addOption(stateDir())
    .addOption(config())
    .addOption(outputOption('text', 'json'))
    .addHelpText('after', example('nodewall undo', 'nodewall undo protect-ssh', 'nodewall undo --machine'))
    .action(async (policy, options) =>
      done(await (await import('./undo.ts')).undoCommand(policy, options, program.name())),
    );
}
