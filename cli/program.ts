import { Command, CommanderError } from 'commander';
import { CommandError, EXIT, type ExitStatus } from '../lib/process/exit.ts';
import { VERSION } from '../lib/process/version.ts';
import { COMMANDS, type CommandEntry } from './commands.ts';
import { errorText } from './output.ts';

/**
 * The `nodewall` command: takes arguments, returns the exit status.
 */
export async function run(argv: readonly string[]): Promise<ExitStatus> {
  let status: ExitStatus = EXIT.done;
  const program = build((result) => {
    status = result;
  });
  try {
    await program.parseAsync([...argv]);
    return status;
  } catch (error) {
    // commander has printed its message; its help and version are not errors.
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.done : EXIT.usage;
    if (error instanceof CommandError) {
      process.stderr.write(errorText(error.message));
      return error.status;
    }
    throw error;
  }
}

type Done = (status: ExitStatus) => void;

function build(done: Done): Command {
  const program = new Command('nodewall')
    .description(
      'A host firewall for Kubernetes nodes: one nftables rule per policy rule, or one of iptables and family.',
    )
    .version(VERSION)
    .showHelpAfterError("(try 'nodewall --help')")
    .exitOverride()
    .configureHelp({ showGlobalOptions: true })
    .addHelpText(
      'after',
      example(
        'nodewall explain --manifests deploy/examples/flagship --node cp-1 \\\n      --flow \'{"direction":"ingress","src":"10.0.0.7","protocol":"tcp","dstPort":6443}\'',
      ),
    );
  addCommands(program, COMMANDS, done);
  return program;
}

function addCommands(program: Command, entries: readonly CommandEntry[], done: Done): void {
  for (const { name, description, argument, options, examples, run, commands = [] } of entries) {
    const command = program
      .command(name)
      .description(description)
      .addHelpText('after', example(...examples));
    if (argument !== undefined) command.argument(...argument);
    for (const option of options) command.addOption(option);
    if (run !== undefined) command.action(async (...args) => done(await run(...args)));
    addCommands(command, commands, done);
  }
}

function example(...lines: readonly string[]): string {
  return `\nExample:\n${lines.map((line) => `  ${line}`).join('\n')}\n`;
}
