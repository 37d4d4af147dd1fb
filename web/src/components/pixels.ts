/** Lengths as a style says them. */
export function pixels<Name extends string>(lengths: Record<Name, number>): Record<Name, string> {
  const said = Object.entries<number>(lengths).map(([name, length]) => [name, `${length}px`]);
  return Object.fromEntries(said) as Record<Name, string>;
}
