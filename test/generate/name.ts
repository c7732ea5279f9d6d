import fc from 'fast-check';
import type { Names } from '../oracle/config.ts';
import type { AddressPlan } from './address.ts';
import { addressNear, toPool } from './address.ts';
import { maybe, weighted } from './choice.ts';

/** Names that may resolve to something, some spelt unusually; each means another name. */
const resolvable = [
  'example.com',
  'api.example.com',
  'v2.api.example.com',
  'DB.Example.com',
  'notexample.com',
  'example.org.',
  'www.example.org',
];

/** What rules ask for, in various spellings; nobody is of `nowhere.test`. */
const asked = [
  ...['example.com', 'api.example.com', 'API.example.com.', 'db.example.com', 'example.org'],
  ...['*.example.com', '*.Example.COM', '*.api.example.com', '*.example.org.', '*.com'],
];

/** One `fqdn`. */
export function fqdn(): fc.Arbitrary<string> {
  return weighted([12, fc.constantFrom(...asked)], [1, fc.constantFrom('nowhere.test', '*.nowhere.test')]);
}

/**
 * What names resolve to: none to three addresses of either family, each name now and then not known
 * at all.
 */
export function names(plan?: AddressPlan): fc.Arbitrary<Names> {
  const pool = toPool(plan);
  const address = fc.constantFrom<4 | 6>(4, 6).chain((family) => addressNear(pool, family));
  const addresses = fc.array(address, { minLength: 0, maxLength: 3 });
  const known = resolvable.map((name) =>
    maybe(
      80,
      addresses.map((list) => [name, list] as const),
    ),
  );
  return fc
    .tuple(...known)
    .map((entries) => Object.fromEntries(entries.filter((entry) => entry !== undefined)));
}
