import { lstatSync, mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { bootUnits, PLAIN_PATH, WANTED_BY } from '../agent/boot/boot-unit.ts';
import { CommandError, EXIT, type ExitStatus } from '../lib/process/exit.ts';
import type { MachineOptions } from './command-options.ts';
import { loadConfig } from './load.ts';
import { print } from './output.ts';

interface BootUnitOptions extends MachineOptions {
  readonly install?: string;
  readonly remove?: string;
}

/** Prints, installs or removes the units that load the saved rules at boot. */
export async function bootUnit(options: BootUnitOptions): Promise<ExitStatus> {
  const { stateDir, install, remove } = options;
  await loadConfig(options.config);
  if (install !== undefined && remove !== undefined)
    throw new CommandError(EXIT.usage, 'give either --install or --remove, not both');
  if (!PLAIN_PATH.test(stateDir))
    throw new CommandError(
      EXIT.usage,
      `--state-dir: a unit needs a path that starts with / and has letters, digits and ./_@+- only, not ${JSON.stringify(stateDir)}`,
    );
  const units = bootUnits(stateDir);
  if (install === undefined && remove === undefined) {
    await print([...units].map(([file, text]) => `# ${file}\n${text}`).join('\n'));
    return EXIT.done;
  }
  const directory = install ?? remove ?? '';
  try {
    for (const [file, text] of units) {
      if (install === undefined) removeUnit(directory, file);
      else installUnit(directory, file, text);
    }
  } catch (error) {
    throw new CommandError(
      EXIT.refused,
      `${(error as Error).message}; give the directory of this machine's units, such as /etc/systemd/system, and run it as root`,
      { cause: error },
    );
  }
  const names = [...units.keys()].join(' and ');
  await print(
    install === undefined
      ? `Removed ${names} from ${directory}.\n`
      : `Installed ${names} in ${directory}: the rules in force now are loaded at the next boot, before the network is up.\n`,
  );
  return EXIT.done;
}

/** As `systemctl enable` does (systemctl(1)), which needs a running systemd. */
function installUnit(directory: string, file: string, text: string): void {
  const path = join(directory, file);
  const temporary = `${path}.${process.pid}`;
  const link = linkOf(directory, file);
  lstatSync(directory);
  try {
    writeFileSync(temporary, text, { mode: 0o644 });
    renameSync(temporary, path);
  } finally {
    rmSync(temporary, { force: true });
  }
  mkdirSync(join(directory, `${WANTED_BY}.wants`), { recursive: true });
  rmSync(link, { force: true });
  symlinkSync(join('..', file), link);
}

function removeUnit(directory: string, file: string): void {
  rmSync(linkOf(directory, file), { force: true });
  rmSync(join(directory, file), { force: true });
}

function linkOf(directory: string, file: string): string {
  return join(directory, `${WANTED_BY}.wants`, file);
}
