import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { provenance } from './provenance.ts';

describe('provenance', () => {
  const statement = provenance({
    name: 'nodewall-agent',
    target: 'agent',
    digest: 'sha256:aa',
    layers: ['sha256:bb', 'sha256:cc'],
    source: 'git+https://example.com/nodewall',
    commit: 'dd',
    files: { 'deploy/Dockerfile': 'FROM scratch\n' },
    builder: 'https://example.com/ci',
  });

  it('names the image and its layers', () => {
    assert.deepEqual(
      statement.subject.map(({ name, digest }) => [name, digest.sha256]),
      [
        ['nodewall-agent', 'aa'],
        ['nodewall-agent/layer-0', 'bb'],
        ['nodewall-agent/layer-1', 'cc'],
      ],
    );
  });

  it('names the commit, the files that the build reads first, and the builder', () => {
    const { buildDefinition, runDetails } = statement.predicate;
    const sha256 = createHash('sha256').update('FROM scratch\n').digest('hex');
    assert.deepEqual(buildDefinition.resolvedDependencies, [
      { uri: 'git+https://example.com/nodewall', digest: { gitCommit: 'dd' } },
      { name: 'deploy/Dockerfile', digest: { sha256 } },
    ]);
    assert.equal(buildDefinition.externalParameters.target, 'agent');
    assert.equal(runDetails.builder.id, 'https://example.com/ci');
  });
});
