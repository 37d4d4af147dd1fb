/** How GPUs are named: their key in tables of the page, and "host · GPU n" for people. */

export interface Placed {
  readonly uuid: string;
  readonly gpu: string;
  readonly hostname: string;
  readonly mig: string;
}

/** One (uuid, mig): a whole GPU, or an instance that was cut from it. */
export function keyOf(uuid: string, mig: string): string {
  return mig ? `${uuid}\u0000${mig}` : uuid;
}

export function gpuName(of: Placed): string {
  const index = of.gpu === "" ? of.uuid : `GPU ${of.gpu}`;
  return of.mig ? `${index} · MIG ${of.mig}` : index;
}

export function fullName(of: Placed): string {
  return of.hostname ? `${of.hostname} · ${gpuName(of)}` : gpuName(of);
}

/** By cluster, host, index as a number, instance: gpu10 comes after gpu9. */
export function inPlace(
  one: Placed & { cluster: string },
  other: Placed & { cluster: string },
): number {
  return (
    compare(one.cluster, other.cluster) ||
    compare(one.hostname, other.hostname) ||
    compare(one.gpu, other.gpu) ||
    compare(one.mig, other.mig) ||
    compare(one.uuid, other.uuid)
  );
}

const COLLATOR = new Intl.Collator("en", { numeric: true });

export function compare(one: string, other: string): number {
  return COLLATOR.compare(one, other);
}
