import assert from 'node:assert/strict';
import { fakeIptables } from '../../../test/fake/fake-iptables.ts';
import { iptablesRuleset } from '../../../test/fake/iptables-ruleset.ts';
import { blame } from './planned.ts';
import { ruleChange } from './rule-change.ts';
import { parseSaved } from './saved.ts';
import { toIptablesError } from './tools.ts';

const RULES = ['-p tcp -j ACCEPT', '-j NFLOG --nflog-group 7411', '-p udp -j NODEWALL-A'];
const { families } = iptablesRuleset({ filter: { 'NODEWALL-A': [], 'NODEWALL-B': RULES } });
const CHANGE = ruleChange(parseSaved(''), families[4], { tables: null, shown: new Map() });
const FIRST = CHANGE.text.split('\n').findIndex((line) => line.startsWith('-A ')) + 1;

describe('a refused restore', () => {
  const { tools } = fakeIptables();
  const refused = (line: number, said: string) =>
    blame(tools, 4, CHANGE, toIptablesError('iptables-restore', 4, said.replace('LINE', String(line))));

  it('is reported for the rule in that line', async () => {
    const { source, message, lacksLog } = await refused(
      FIRST + 2,
      'line LINE: RULE_APPEND failed (Invalid argument): rule in chain NODEWALL-B',
    );
    assert.equal(source?.rule, 'NODEWALL-B/2');
    assert.match(
      message,
      /^table filter, chain NODEWALL-B, rule '-p udp -j NODEWALL-A': iptables-restore: line/,
    );
    assert.equal(lacksLog, false);
  });

  it('reports that the kernel lacks NFLOG', async () => {
    for (const said of [
      "Couldn't load target `NFLOG':No such file or directory\nError occurred at line: LINE\n",
      'line LINE: RULE_APPEND failed (No such file or directory): rule in chain NODEWALL-B',
      'Warning: Extension NFLOG revision 0 not supported, missing kernel module?\nline LINE failed',
    ]) {
      assert.equal((await refused(FIRST + 1, said)).lacksLog, true, said);
      assert.equal((await refused(FIRST, said)).lacksLog, false, said);
    }
  });

  it('has no source when no rule caused it', async () => {
    assert.equal((await refused(2, 'Error occurred at line: LINE\n')).source, null);
    // The commit of the table is refused, but the rules are accepted one by one.
    const commit = CHANGE.text.split('\n').indexOf('COMMIT') + 1;
    assert.equal((await refused(commit, 'line LINE failed')).source, null);
    assert.equal(parseSaved(await tools.save(4)).filter.chains.size, 0);
  });
});
