import assert from 'node:assert/strict';
import { redactor } from './safe-text.ts';

const redact = redactor(new Set(['worker-0001', 'nodewall-agent-x7k2p', 'node-state.jsonl']));

describe('text of others without credentials', () => {
  for (const text of [
    'https://jane:hunter2@example.com/x',
    'GET https://example.com/a?key=hunter2',
    'Authorization: Bearer hunter2',
    'authorization=Basic hunter2',
    'password=hunter2 and more',
    '{"db_password": "hunter2"}',
    'PGPASSWORD=hunter2',
    'the token hunter2 was refused',
    'API_KEY: hunter2',
    "'--client-secret' 'hunter2'",
    '-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----',
    '-----BEGIN PRIVATE KEY----- hunter2',
  ])
    it(`has none: ${JSON.stringify(text)}`, () => {
      assert.ok(!redact(text).includes('hunter2'), redact(text));
    });

  for (const secret of [
    'eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJqYW5lIn0.c2lnbmF0dXJl1',
    'planted-secret-07',
    'AKIAIOSFODNN7EXAMPLE',
    'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY',
    '6c685219b1d2f3a4c5b6',
    'a'.repeat(64),
  ])
    it(`has no word like ${secret}`, () => {
      for (const text of [
        secret,
        `it said ${secret}.`,
        `path x ${secret}:`,
        `a "${secret}" b`,
        `k=${secret};`,
      ])
        assert.ok(!redact(text).includes(secret), redact(text));
    });

  for (const text of [
    'worker-0001: no answer from 10.0.0.17:8443 in 4.5s',
    'the agent of nodewall-agent-x7k2p is of version 0.1.0, Kubernetes v1.35.4',
    'connect ECONNREFUSED fd00:10:244::17',
    'GET /apis/nodewall.io/v1alpha1/clusternetworkpolicies: 403 Forbidden: RBAC needs list',
    '"v1alpha1.controlplane.nodewall.io" in API group "apiregistration.k8s.io"',
    'cannot write a state file: ENOSPC: node-state.jsonl',
    '2026-11-26T22:30:00.123Z ERR_HTTP2_STREAM_ERROR',
    'the token is not valid',
    'Error: boom at file:///app/agent/run/state-store.ts:12:34',
  ])
    it(`keeps ${JSON.stringify(text)}`, () => assert.equal(redact(text), text));

  it('takes time in proportion to the text, whatever it is', function () {
    // By the square of the length it would be minutes.
    this.timeout(20_000);
    const pieces = [
      'password',
      'a:',
      ' =',
      'a-',
      'a.',
      'a://',
      '.',
      'a1/',
      '-----BEGIN ',
      '@',
      'a@',
      'password is ',
    ];
    for (const piece of pieces) redact(`${piece.repeat(30_000)}x`);
    redact(`token${' '.repeat(100_000)},`);
  });
});
