import { readFile } from 'node:fs/promises';
import { isIP } from 'node:net';
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

export interface ListenAddress {
  /** Undefined: all addresses of the machine. */
  readonly host: string | undefined;
  /** 0: the kernel picks one. */
  readonly port: number;
}

/**
 * Parses the HOST:PORT, [IPv6]:PORT or :PORT of an option. Throws a CommandError that names the
 * option.
 */
export function toListenAddress(text: string, option: string): ListenAddress {
  const match = /^(?:\[([^\]]+)\]|([^:[\]]*)):(\d{1,5})$/.exec(text);
  const [, ipv6, host = ''] = match ?? [];
  const port = Number(match?.[3]);
  if (match === null || port > 65_535 || (ipv6 !== undefined && isIP(ipv6) !== 6)) {
    throw new CommandError(
      EXIT.usage,
      `${option}: ${JSON.stringify(text)}: must be HOST:PORT; an IPv6 address in brackets, no HOST is every address`,
    );
  }
  const name = ipv6 ?? host;
  return { host: name === '' ? undefined : name, port };
}
