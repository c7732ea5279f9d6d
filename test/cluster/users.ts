/**
 * ServiceAccounts of namespace default and their ClusterRoles, as YAML that begins and ends with a
 * line break.
 */
export function usersYaml(rolesOf: Readonly<Record<string, readonly string[]>>): string {
  const documents = Object.entries(rolesOf).flatMap(([user, roles]) => [
    `
apiVersion: v1
kind: ServiceAccount
metadata: {name: ${user}, namespace: default}
`,
    ...roles.map(
      (role) => `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: ${user}-${role}}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: ${role}}
subjects: [{kind: ServiceAccount, name: ${user}, namespace: default}]
`,
    ),
  ]);
  return documents.join('---');
}
