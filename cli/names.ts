import { fixedNames, type NameTable } from '../apis/names.ts';
import { asFields, asList } from '../apis/schema/json-schema.ts';
import { checkFqdn, toFqdn } from '../apis/validate/peer.ts';
import { type Findings, findings, show } from '../apis/validate/problem.ts';
import { parseYaml } from '../apis/validate/yaml-document.ts';
import { formatAddress, parseAddress } from '../lib/net/address.ts';
import { CommandError, EXIT } from '../lib/process/exit.ts';
import { readInput } from '../lib/process/option-value.ts';

/**
 * Reads the file of `--names`: names (or wildcards, for the peers written the same) and their
 * addresses. Throws a CommandError that names all problems at once.
 */
export async function loadNames(path: string): Promise<NameTable> {
  return parseNames(await readInput('--names', path), path);
}

/** Throws a CommandError that names all problems; `path` is used in the messages only. */
export function parseNames(text: string, path: string): NameTable {
  const parsed = parseYaml(text.replace(/^\ufeff/, ''));
  if ('reason' in parsed) throw invalid([`${path}:${parsed.line}: ${parsed.reason}`]);
  const found = findings();
  const names = toNames(parsed.value ?? {}, found);
  if (found.problems.length > 0) {
    throw invalid(found.problems.map(({ path: at, message }) => `${path}:${parsed.lineOf(at)}: ${message}`));
  }
  return fixedNames(names);
}

function invalid(lines: readonly string[]): CommandError {
  return new CommandError(EXIT.invalid, `the names are not valid:\n${lines.join('\n')}`);
}

const FORM = 'www.example.com: [192.0.2.7, "2001:db8::7"]';

function toNames(raw: unknown, found: Findings): Map<string, string[]> {
  const names = new Map<string, string[]>();
  const fields = asFields(raw);
  if (fields === null) found.error([], `must be names with their addresses, as in ${FORM}; not ${show(raw)}`);
  for (const [key, value] of Object.entries(fields ?? {})) {
    checkFqdn(key, [key], found);
    const name = toFqdn(key);
    if (names.has(name)) found.error([key], `the name ${name} occurs twice`);
    if (!Array.isArray(value))
      found.error([key], `must be a list of addresses, as in ${FORM}; not ${show(value)}`);
    names.set(
      name,
      asList(value).flatMap((address, i) => toAddress(address, [key, i], found)),
    );
  }
  return names;
}

function toAddress(raw: unknown, path: readonly (string | number)[], found: Findings): string[] {
  const address = typeof raw === 'string' ? parseAddress(raw) : null;
  if (address === null) {
    found.error(path, `${show(raw)} is not a valid IP address`);
    return [];
  }
  return [formatAddress(address)];
}
