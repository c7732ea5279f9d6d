/** The edit that the demo makes in its copy of protect-api.yaml. */

const OFFICE = `        - ipBlock: {cidr: 10.0.0.0/24}\n`;
const LAST_RULE = `    - name: drop-rest\n`;

const NEW_RULES = `    - name: allow-ssh
      action: Allow
      from: [{ipBlock: {cidr: 203.0.113.0/24}}, {ipBlock: {cidr: "2001:db8::/32"}}]
      ports: [{protocol: TCP, port: 22}]
    - name: reject-office
      action: Reject
      from: [{ipBlock: {cidr: 10.0.0.0/24}}]
`;

/** The changed policy. Throws where the example no longer has the lines that it changes. */
export function changePolicy(text: string): string {
  for (const anchor of [OFFICE, LAST_RULE]) {
    if (text.split(anchor).length !== 2) {
      throw new Error(
        `protect-api.yaml must have this line once: ${anchor.trim()}; adapt ${import.meta.filename}`,
      );
    }
  }
  return text.replace(OFFICE, '').replace(LAST_RULE, `${NEW_RULES}${LAST_RULE}`);
}
