import type { Address } from './address.ts';
import { parseAddress } from './address.ts';
import type { Names } from './config.ts';

/**
 * What an `fqdn` resolves to: the addresses of that name, or of all names that `*.example.com`
 * matches.
 */
export function resolveName(fqdn: string, names: Names): Address[] {
  const wanted = normalised(fqdn);
  const suffix = wanted.startsWith('*.') ? wanted.slice(1) : undefined;
  if ((suffix ?? wanted).includes('*') || wanted.replace('*.', '') === '') {
    throw new Error(`the oracle does not evaluate the name ${fqdn}`);
  }
  const isMatch = (name: string) =>
    suffix === undefined ? name === wanted : name.endsWith(suffix) && name.length > suffix.length;
  return Object.entries(names).flatMap(([name, addresses]) =>
    isMatch(normalised(name)) ? addresses.map(readAddress) : [],
  );
}

/** Names compare without case and without the dot of the root. */
function normalised(name: string): string {
  return name.toLowerCase().replace(/\.$/, '');
}

function readAddress(text: string): Address {
  const address = parseAddress(text);
  if (address === undefined) throw new Error(`not an address: ${text}`);
  return address;
}
