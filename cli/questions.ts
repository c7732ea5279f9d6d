import type { Command } from 'commander';
import { example } from './command-options.ts';
import { recordOnly } from './rollout-text.ts';

/** Questions of who is on call, and the command that answers each (docs/on-call.md). */
export const QUESTIONS: readonly (readonly [question: string, command: string])[] = [
  [
    'Is it the firewall? Which rule of which policy, on this node?',
    `nodewall explain --node NODE \\
        --flow '{"direction":"ingress","src":"ADDRESS","protocol":"tcp","dstPort":PORT}'`,
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
  ['Who uses a port of a node?', 'nodewall flows --node NODE --direction ingress --port PORT'],
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
  ['Run:', ['agent', 'controller', 'cleanup', 'boot-unit', 'completion', 'help']],
];

/** Orders the commands of `--help` by what they are for, and adds the questions. */
export function addQuestions(program: Command): void {
  for (const [title, names] of GROUPS)
    for (const command of program.commands) if (names.includes(command.name())) command.helpGroup(title);
  const titles = GROUPS.map(([title]) => title);
  const rank = (command: Command): number => {
    const [, names = []] = GROUPS[titles.indexOf(command.helpGroup())] ?? [];
    return 100 * titles.indexOf(command.helpGroup()) + names.indexOf(command.name());
  };
  // The groups stand in the order of their first commands.
  (program.commands as Command[]).sort((a, b) => rank(a) - rank(b));
  const texts = QUESTIONS.map(([question, command]) => `  ${question}\n      ${command}\n`);
  program.addHelpText('after', example('nodewall status'));
  program.addHelpText(
    'after',
    `\nQuestions (NODE, POLICY, ADDRESS and PORT are yours to fill in):\n${texts.join('')}${HINTS}`,
  );
}
