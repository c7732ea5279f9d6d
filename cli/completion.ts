import type { Command, Option } from 'commander';
import {
  type CompletedCommand,
  type CompletedOption,
  type CompletedValue,
  completionScript,
  type Shell,
} from '../lib/process/terminal.ts';
import { NODEWALL_EDITION } from './edition.ts';
import { print } from './output.ts';

/** `nodewall completion`: the script of a shell for all commands of the program. */
export async function completion(shell: Shell, program: Command): Promise<void> {
  const commands = completedCommands(program, []);
  await print(completionScript(shell, { name: NODEWALL_EDITION.name, commands }));
}

function completedCommands(command: Command, path: readonly string[]): readonly CompletedCommand[] {
  const help = command.createHelp();
  const subcommands = help.visibleCommands(command);
  const own: CompletedCommand = {
    path,
    subcommands: subcommands.map((one) => one.name()),
    options: help.visibleOptions(command).map(completedOption),
  };
  const below = subcommands
    // `help` is made for the list only.
    .filter((one) => command.commands.includes(one))
    .flatMap((one) => completedCommands(one, [...path, one.name()]));
  return [own, ...below];
}

function completedOption(option: Option): CompletedOption {
  const { short, long, description } = option;
  const flags = [short, long].filter((flag) => flag !== undefined && flag !== null);
  return { flags, description, value: completedValue(option) };
}

function completedValue({ flags, argChoices, required, optional }: Option): CompletedValue | null {
  if (!required && !optional) return null;
  if (argChoices !== undefined) return argChoices;
  const [, name = ''] = /[<[](\w+)/.exec(flags) ?? [];
  if (['file', 'path'].includes(name)) return 'file';
  return ['dir', 'directory'].includes(name) ? 'directory' : 'other';
}
