/** Where the policies are whose status we write. */
export const NODEWALL_POLICIES = '/apis/nodewall.io/v1alpha1/clusternetworkpolicies';
