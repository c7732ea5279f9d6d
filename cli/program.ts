import { Argument, Command, CommanderError } from 'commander';
import { CommandError, EXIT, type ExitStatus } from '../lib/process/exit.ts';
import { SHELLS } from '../lib/process/shell-completion.ts';
import { VERSION } from '../lib/process/version.ts';
import { addClusterCommands } from './cluster-commands.ts';
import { type Done, example } from './command-options.ts';
import { type Edition, editionText, NODEWALL_EDITION } from './edition.ts';
import { addEgressCommands } from './egress/egress-commands.ts';
import { refuseMachineCommands } from './machine-commands.ts';
import { addManifestCommands } from './manifest-commands.ts';
import { addNodeCommands } from './node-commands.ts';
import { errorText } from './output.ts';
import { addQuestions } from './questions.ts';
import { addRolloutCommands } from './rollout-commands.ts';
import { addServiceCommands } from './service-commands.ts';
import { addUninstallCommand } from './uninstall-command.ts';

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

function build(edition: Edition, done: Done): Command {
  const program = new Command(edition.name)
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

function addCompletion(program: Command): void {
  program
    .command('completion')
    .description(
      'Print the script by which a shell completes commands, options and their values; for kubectl, the file kubectl_complete-nodewall.',
    )
    .addArgument(new Argument('<shell>', 'which shell').choices(SHELLS))
    .addHelpText(
      'after',
      example(
        'nodewall completion bash > /etc/bash_completion.d/nodewall',
        'nodewall completion kubectl > /usr/local/bin/kubectl_complete-nodewall',
      ),
    )
    .action(async (shell) => await (await import('./completion.ts')).completion(shell, program));
}
