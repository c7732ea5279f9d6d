import type { BaseChain } from 'nftables-napi';
import { type ParsedRule, parseComment, parseRule } from './nftrule.ts';
import { Refusal } from './refusal.ts';

/** A command of nft text, in the forms that agent/apply/transaction.ts writes. */
export type NftCommand =
  | { readonly kind: 'addTable' | 'deleteTable' }
  | { readonly kind: 'renameChain'; readonly name: string; readonly to: string }
  | { readonly kind: 'addChain'; readonly name: string; readonly base: BaseChain | null }
  | { readonly kind: 'flushChain' | 'deleteChain' | 'deleteSet' | 'deleteMap'; readonly name: string }
  | { readonly kind: 'addRule'; readonly chain: string; readonly rule: ParsedRule }
  | ({ readonly kind: 'addSet' } & SetDeclaration);

export interface SetDeclaration {
  readonly name: string;
  /** 4 and 16 are addresses, 12 and 24 services, 2 is a map from ports to verdicts. */
  readonly keyLength: 2 | 4 | 16 | 12 | 24;
  readonly interval: boolean;
  readonly comment: string | null;
  /** As nft writes them: `10.0.0.0/8`, `22 : jump x`. */
  readonly elements: readonly string[];
}

/** A command and the line it starts at, from 1. */
export interface Line {
  readonly number: number;
  readonly command: NftCommand;
}

const TABLE = 'inet nodewall';
const NAME = '([^\\s;{}"@]+)';
const BASE =
  /^type (filter|nat) hook (input|output|prerouting|postrouting) priority (-?\d{1,9}); policy (accept);$/;
/** NFT_NAME_MAXLEN less its NUL. */
const MAX_NAME = 255;

const FORMS: readonly (readonly [RegExp, (found: readonly string[]) => NftCommand])[] = [
  form('add table', () => ({ kind: 'addTable' })),
  form('delete table', () => ({ kind: 'deleteTable' })),
  form(`rename chain`, ([name = '', to = '']) => ({ kind: 'renameChain', name, to }), ` ${NAME} ${NAME}`),
  form(
    'add chain',
    ([name = '', block]) => ({ kind: 'addChain', name, base: parseBase(block) }),
    ` ${NAME}(?: \\{ (.+) \\})?`,
  ),
  form(
    'add rule',
    ([chain = '', rule = '']) => ({ kind: 'addRule', chain, rule: parseRule(rule) }),
    ` ${NAME} (.+)`,
  ),
  form('flush chain', ([name = '']) => ({ kind: 'flushChain', name }), ` ${NAME}`),
  form('delete chain', ([name = '']) => ({ kind: 'deleteChain', name }), ` ${NAME}`),
  form('delete set', ([name = '']) => ({ kind: 'deleteSet', name }), ` ${NAME}`),
  form('delete map', ([name = '']) => ({ kind: 'deleteMap', name }), ` ${NAME}`),
  form(
    'add set',
    ([name = '', block = '']) => declaration(name, statements(block)),
    ` ${NAME} \\{ (.+); \\}`,
  ),
  form(
    'add map',
    ([name = '', block = '']) => declaration(name, statements(block)),
    ` ${NAME} \\{ (.+); \\}`,
  ),
];

function form(
  words: string,
  make: (found: readonly string[]) => NftCommand,
  rest = '',
): (typeof FORMS)[number] {
  return [new RegExp(`^${words} ${TABLE}${rest}$`), make];
}

/** Every line is one command, or the table is one block (the text of `rulesetText`), alone or after commands. */
export function parseCommands(text: string, fail: (line: number, error: unknown) => never): Line[] {
  if (!text.endsWith('\n')) throw new Refusal('SYNTAX', 'the last line does not end');
  const lines = text.trimEnd().split('\n');
  const commands: Line[] = [];
  for (let number = 1; number <= lines.length; number++) {
    const line = lines[number - 1] ?? '';
    try {
      if (line === `table ${TABLE} {`) {
        if (lines.at(-1) !== '}') throw new Refusal('SYNTAX', 'the table does not end');
        commands.push(...parseTable(lines.slice(number, -1), number + 1));
        break;
      }
      commands.push({ number, command: parseCommand(line) });
    } catch (error) {
      fail(number, error);
    }
  }
  return commands;
}

function parseCommand(line: string): NftCommand {
  for (const [pattern, make] of FORMS) {
    const found = pattern.exec(line);
    if (found === null) continue;
    const command = make(found.slice(1));
    for (const name of namesIn(command)) {
      if (name.length > MAX_NAME) throw new Refusal('ERANGE', 'Numerical result out of range');
    }
    return command;
  }
  throw new Refusal('SYNTAX', `not a command that nodewall writes: ${line}`);
}

function namesIn(command: NftCommand): string[] {
  if (command.kind === 'renameChain') return [command.name, command.to];
  return 'name' in command ? [command.name] : [];
}

function parseBase(text: string | undefined): BaseChain | null {
  if (text === undefined) return null;
  const found = BASE.exec(text);
  if (found === null) throw new Refusal('SYNTAX', `not a base chain that nodewall writes: ${text}`);
  const [, type, hook, priority] = found as unknown as [string, BaseChain['type'], BaseChain['hook'], string];
  return { type, hook, priority: Number(priority), policy: 'accept' };
}

/** Comments may hold what separates statements. */
function statements(block: string): string[] {
  return block.match(/(?:"[^"]*"|[^";])+/g)?.map((text) => text.trim()) ?? [];
}

const KEY_LENGTHS: Readonly<Record<string, SetDeclaration['keyLength']>> = {
  'type ipv4_addr': 4,
  'type ipv6_addr': 16,
  'type ipv4_addr . inet_proto . inet_service': 12,
  'type ipv6_addr . inet_proto . inet_service': 24,
  'type inet_service : verdict': 2,
};

function declaration(name: string, lines: readonly string[]): NftCommand {
  const [type = '', ...rest] = lines;
  const keyLength = KEY_LENGTHS[type];
  if (keyLength === undefined) throw new Refusal('SYNTAX', `not a set that nodewall writes: ${type}`);
  let interval = false;
  let comment: string | null = null;
  let elements: string[] = [];
  for (const statement of rest) {
    const [, quoted] = /^comment "([^"\\]*)"$/.exec(statement) ?? [];
    const [, listed] = /^elements = \{ (.+) \}$/.exec(statement) ?? [];
    if (statement === 'flags interval') interval = true;
    else if (quoted !== undefined) comment = parseComment(quoted);
    else if (listed !== undefined) elements = listed.split(', ');
    else throw new Refusal('SYNTAX', `not of a set that nodewall writes: ${statement}`);
  }
  return { kind: 'addSet', name, keyLength, interval, comment, elements };
}

/** Blocks of a table. nft makes all chains before what names them, whatever their order. */
function parseTable(lines: readonly string[], first: number): Line[] {
  const sets: Line[] = [];
  const chains: Line[] = [];
  const rules: Line[] = [];
  for (let i = 0; i < lines.length; i++) {
    if (lines[i] === '') continue;
    const [, kind, name = ''] = /^\t(set|map|chain) (\S+) \{$/.exec(lines[i] ?? '') ?? [];
    const end = lines.indexOf('\t}', i);
    if (kind === undefined || end < 0) throw new Refusal('SYNTAX', `not in a table: ${lines[i]}`);
    const number = first + i;
    const body = lines.slice(i + 1, end).map((line) => line.replace(/^\t\t/, ''));
    if (kind === 'chain') {
      const base = body[0]?.startsWith('type ') ? body[0] : undefined;
      chains.push({ number, command: { kind: 'addChain', name, base: parseBase(base) } });
      for (const [at, text] of body.slice(base === undefined ? 0 : 1).entries()) {
        rules.push({
          number: number + at + 1,
          command: { kind: 'addRule', chain: name, rule: parseRule(text) },
        });
      }
    } else sets.push({ number, command: declaration(name, body) });
    i = end;
  }
  return [{ number: first - 1, command: { kind: 'addTable' } }, ...chains, ...sets, ...rules];
}
