import { isIP } from 'node:net';
import { CommandError, EXIT } from './exit.ts';

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
