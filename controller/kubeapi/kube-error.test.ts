import assert, { fail } from 'node:assert/strict';
import { formatMissingRight, formatRbacRule, rbacRule, shippedRole } from './kube-error.ts';

describe('rbacRule', () => {
  const CASES = [
    ['GET', '/api/v1/nodes', '', 'nodes', 'list', undefined, null],
    ['GET', '/api/v1/namespaces/nodewall-system', '', 'namespaces', 'get', 'nodewall-system', null],
    ['GET', '/api/v1/namespaces/a/secrets/b', '', 'secrets', 'get', 'b', 'a'],
    ['POST', '/api/v1/namespaces/a/secrets', '', 'secrets', 'create', undefined, 'a'],
    [
      'PUT',
      '/apis/coordination.k8s.io/v1/namespaces/a/leases/b',
      'coordination.k8s.io',
      'leases',
      'update',
      'b',
      'a',
    ],
    [
      'PATCH',
      '/apis/nodewall.io/v1alpha1/clusternetworkpolicies/p/status',
      'nodewall.io',
      'clusternetworkpolicies/status',
      'patch',
      'p',
      null,
    ],
    [
      'POST',
      '/apis/authentication.k8s.io/v1/tokenreviews',
      'authentication.k8s.io',
      'tokenreviews',
      'create',
      undefined,
      null,
    ],
    ['DELETE', '/api/v1/nodes', '', 'nodes', 'deletecollection', undefined, null],
  ] as const;

  for (const [method, path, apiGroup, resource, verb, name, namespace] of CASES) {
    it(`${method} ${path}`, () => {
      const rule = rbacRule(method, path);
      assert.deepEqual(rule, {
        apiGroups: [apiGroup],
        resources: [resource],
        verbs: [verb],
        ...(name === undefined ? {} : { resourceNames: [name] }),
        namespace,
      });
    });
  }

  it('returns none for a path without a resource', () => {
    for (const path of ['/healthz', '/apis', '/api/v1', '/']) assert.equal(rbacRule('GET', path), null, path);
  });

  it('formats the rule as in a manifest', () => {
    const rule = rbacRule('GET', '/api/v1/namespaces/a/secrets/b');
    assert.ok(rule !== null);
    const text =
      '{apiGroups: [""], resources: ["secrets"], verbs: ["get"], resourceNames: ["b"]} in a Role in namespace a';
    assert.equal(formatRbacRule(rule), text);
  });

  it('says which right a controller lacks, and which role gives it', () => {
    const cases = [
      [
        '/api/v1/pods',
        'it may not list pods, which ClusterRole nodewall-controller of deploy/rbac.yaml allows',
      ],
      [
        '/apis/nodewall.io/v1alpha1/tiers',
        'it may not list tiers.nodewall.io, which ClusterRole nodewall-controller of deploy/rbac.yaml allows',
      ],
      [
        '/api/v1/namespaces/a/secrets/b',
        'it may not get secrets in namespace a, which Role nodewall-controller-ca in namespace a of deploy/rbac.yaml allows',
      ],
    ] as const;
    for (const [path, text] of cases) assert.equal(formatMissingRight(rbacRule('GET', path) ?? fail()), text);
  });

  it('names the role for people that has the rule', () => {
    const policies = '/apis/nodewall.io/v1alpha1/clusternetworkpolicies';
    const roles = [
      ['GET', '/apis/controlplane.nodewall.io/v1alpha1/nodeviews/n/records', 'nodewall-view'],
      ['GET', policies, 'nodewall-view'],
      ['PATCH', `${policies}/p`, 'nodewall-operator'],
      ['PATCH', `${policies}/p/status`, null],
      ['DELETE', `${policies}/p`, null],
      ['GET', '/api/v1/nodes', null],
    ] as const;
    for (const [method, path, role] of roles) {
      const rule = rbacRule(method, path);
      assert.ok(rule !== null);
      assert.equal(shippedRole(rule), role, `${method} ${path}`);
    }
  });
});
