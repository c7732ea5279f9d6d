import { readFile } from 'node:fs/promises';
import { CommandError, EXIT } from './exit.ts';

/** The text of the file that an option names. Throws a CommandError that names both. */
export async function readInput(option: string, path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    const message = `${option}: ${path}: can't be read: ${systemReason(error)}`;
    throw new CommandError(EXIT.invalid, message, { cause: error });
  }
}

/** The message of an operating system error, human-readable if it is a common one. */
export function systemReason(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  switch (code) {
    case 'ENOENT':
      return 'there is no such file or directory';
    case 'EACCES':
    case 'EPERM':
      return 'permission denied';
    case 'EISDIR':
      return 'it is a directory';
    case 'ELOOP':
      return 'its symbolic links form a loop';
    default:
      return code ?? message;
  }
}
