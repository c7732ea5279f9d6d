import { Argument, type Command, CommanderError } from 'commander';
import { CommandError, EXIT, type ExitStatus } from '../lib/process/exit.ts';
import { SHELLS } from '../lib/process/terminal.ts';
import { VERSION } from '../lib/process/version.ts';
import { recordOnly } from './cluster-api.ts';
import { addClusterCommands, addRolloutCommands, addUninstallCommand } from './cluster-commands.ts';
import { type Done, OwnCommand } from './command-options.ts';
import { type Edition, editionText, NODEWALL_EDITION, refuseMachineCommands } from './edition.ts';
import { addEgressCommands } from './egress/egress-commands.ts';
import { addManifestCommands } from './manifest-commands.ts';
import { addNodeCommands } from './node-commands.ts';
import { errorText } from './output.ts';
import { addServiceCommands } from './service-commands.ts';

/**
 * The `nodewall` command: takes arguments, returns the exit status. Each action imports its code
 * when it runs, so that `--help` stays quick.
 */
export async function runNodewall(
  argv: readonly string[],
  edition: Edition = NODEWALL_EDITION,
): Promise<ExitStatus> {
  let status: ExitStatus = EXIT.done;
  const program = build(edition, (result) => {
    status = result;
  });
  try {
    await program.parseAsync([...argv]);
    return status;
  } catch (error) {
    // commander has printed its message; its help and version are not errors.
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.done : EXIT.usage;
    if (error instanceof CommandError) {
      process.stderr.write(errorText(editionText(error.message, edition)));
      return error.status;
    }
    throw error;
  }
}

function build(edition: Edition, done: Done): OwnCommand {
  const program = new OwnCommand(edition.name)
    .description(
      'A host firewall for Kubernetes nodes: one nftables rule per policy rule, or one iptables rule per family.',
    )
    .version(VERSION)
    .showHelpAfterError(`(try '${edition.name} --help')`)
    .configureOutput({
      writeOut: (text) => process.stdout.write(editionText(text, edition)),
      writeErr: (text) => process.stderr.write(editionText(text, edition)),
    })
    .exitOverride()
    .configureHelp({ showGlobalOptions: true });
  addManifestCommands(program, done);
  addServiceCommands(program, done);
  addNodeCommands(program, done);
  addEgressCommands(program, done);
  addClusterCommands(program, done);
  addRolloutCommands(program, done);
  addUninstallCommand(program, done);
  addCompletion(program);
  addQuestions(program);
  refuseMachineCommands(program, edition);
  return program;
}

function addCompletion(program: OwnCommand): void {
  program
    .command('completion')
    .description(
      'Print the script by which a shell completes commands, options and their values; for kubectl, the file kubectl_complete-nodewall.',
    )
    .addArgument(new Argument('<shell>', 'which shell').choices(SHELLS))
    .addExamples(
      'nodewall completion bash > /etc/bash_completion.d/nodewall',
      'nodewall completion kubectl > /usr/local/bin/kubectl_complete-nodewall',
    )
    .action(async (shell) => await (await import('./completion.ts')).completion(shell, program));
}

/** Questions of who is on call, and the command that answers each (docs/on-call.md). */
export const QUESTIONS: readonly (readonly [question: string, command: string])[] = [
  [
    'Is it the firewall? Which rule of which policy, on this node?',
    'nodewall explain --node NODE --from ADDRESS --to-port PORT',
  ],
  ['What is wrong? Which node does not enforce, and why?', 'nodewall status'],
  ['What changed, when, and by whom?', 'nodewall changes --since 24h'],
  ['What is dropped right now, by which rule, on which nodes?', 'nodewall top --all-nodes'],
  ['Who was denied?', 'nodewall log --all-nodes --verdict Drop --since 1h'],
  [
    'How do I stop just that?',
    `nodewall undo POLICY    # without a name: what can be undone; or, without a rollout, record only:
      ${recordOnly('POLICY')}`,
  ],
  ['Is a rollout stuck, and why?', 'nodewall rollout status'],
  ['Who uses a port of a node?', 'nodewall flows --node NODE --ingress --to-port PORT'],
  ['Which rules does nothing match?', 'nodewall rules --all-nodes --unused'],
  ['Is everything set up right?', 'nodewall check'],
  ['What do I send the maintainers?', 'nodewall bundle'],
];

/** Behind the questions. */
const HINTS = `
Before a change:
  nodewall impact -f FILE --all-nodes    # would it deny anything that nodes have seen?
  nodewall advise                        # which policies would fit the nodes?

Commands with --node are about this machine without it. status, changes, check, undo, rollout, advise,
bundle and console are about the cluster of the kubeconfig, if there is one.
`;

const RUN = 'Run:';
const GROUPS: readonly (readonly [title: string, commands: readonly string[]])[] = [
  [
    'Ask:',
    [
      'status',
      'explain',
      'changes',
      'top',
      'log',
      'flows',
      'rules',
      'names',
      'interfaces',
      'check',
      'bundle',
      'console',
    ],
  ],
  ['Steer:', ['undo', 'rollout', 'egress', 'off', 'on', 'confirm', 'retry', 'flush', 'uninstall']],
  ['Before a change:', ['validate', 'compile', 'diff', 'lint', 'impact', 'advise', 'migrate', 'dump']],
  [RUN, ['agent', 'controller', 'relay', 'cleanup', 'boot-unit', 'completion', 'help']],
];

/** Orders the commands of `--help` by what they are for, and adds the questions. */
function addQuestions(program: OwnCommand): void {
  for (const [title, names] of GROUPS)
    for (const command of program.commands) if (names.includes(command.name())) command.helpGroup(title);
  program.commandsGroup(RUN).helpCommand(true);
  const titles = GROUPS.map(([title]) => title);
  const rank = (command: Command): number => {
    const [, names = []] = GROUPS[titles.indexOf(command.helpGroup())] ?? [];
    return 100 * titles.indexOf(command.helpGroup()) + names.indexOf(command.name());
  };
  // The groups stand in the order of their first commands.
  (program.commands as Command[]).sort((a, b) => rank(a) - rank(b));
  const texts = QUESTIONS.map(([question, command]) => `  ${question}\n      ${command}\n`);
  program.addExamples('nodewall status');
  program.addHelpText(
    'after',
    `\nQuestions (NODE, POLICY, ADDRESS and PORT are yours to fill in):\n${texts.join('')}${HINTS}`,
  );
}
