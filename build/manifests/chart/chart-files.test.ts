import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { Ajv } from 'ajv';
import { parseConfig } from '../../../apis/config-file.ts';
import { CHART, chartFiles } from './chart-files.ts';

const EXAMPLE = new URL('../../../docs/examples/config.yaml', import.meta.url);

function isAllowed(value: unknown): boolean {
  const schema = JSON.parse(readFileSync(new URL('values.schema.json', CHART), 'utf8'));
  const accepts = new Ajv({ strict: false, allErrors: true }).compile(schema);
  return accepts(value) as boolean;
}

describe('deploy/chart, generated', () => {
  it('equals the output of npm run generate', () => {
    for (const [path, text] of chartFiles().kept)
      assert.equal(readFileSync(new URL(path, CHART), 'utf8'), text, 'npm run generate');
  });

  it('has no template that is made, and nothing that Helm would take for a chart', () => {
    const there = globSync(['*.yaml', 'templates/*'], { cwd: CHART });
    assert.deepEqual(
      there.filter((path) => chartFiles().packaged.has(path)),
      [],
    );
    assert.deepEqual(there.sort(), [
      ...['NOTES.txt', '_names.tpl', 'agent-config.yaml', 'uninstall.yaml'].map(
        (name) => `templates/${name}`,
      ),
      'values.yaml',
    ]);
    assert.ok(chartFiles().packaged.has('Chart.yaml'));
  });

  it('allows any valid configuration of the agent as agentConfig', () => {
    const { config, problems } = parseConfig(readFileSync(EXAMPLE, 'utf8'), 'config.yaml');
    assert.deepEqual(problems, []);
    assert.ok(config !== null);
    for (const agentConfig of [
      {},
      { failsafe: { ingress: [{ protocol: 'TCP', port: 22, peers: ['10.0.0.0/24'] }] } },
      { failsafe: { ingress: [{ port: 22, peers: 'nodes' }], egress: [] } },
      { interfaceGroups: { pods: 8, lan: { group: 12, match: ['eth*'] } } },
      { guard: { probes: [{ name: 'web', http: 'http://10.0.0.1/' }], confirm: 'Manual', timeout: 60 } },
      { rollout: { steps: [1, '5%', '100%'], pause: 60 } },
    ])
      assert.ok(isAllowed({ agentConfig }), JSON.stringify(agentConfig));
  });
});
