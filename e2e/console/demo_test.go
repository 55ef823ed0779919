package console_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage"
)

// A demo fills a store with the feeds of a shop, as they might look after a day: a catalogue that changes now and then,
// prices and stock that change all the time, and a list that has not changed for days.
type demo struct {
	t     *testing.T
	store storage.Store
	end   time.Time // time of the newest entity
	rng   *rand.Rand
	ids   int
}

// day is the time over which the feeds of a demo have been published.
const day = 26 * time.Hour

// fill publishes the feeds. Each run publishes the same entities, except for their times.
func (d *demo) fill() {
	d.rng = rand.New(rand.NewPCG(16, 1))
	var all []*feed.Entity
	for _, p := range products() {
		all = append(all, d.put(p.sku, p.json("")))
	}
	d.publish("products", 50, []moment{{d.end.Add(-day), all}}, d.moments(90, 7*time.Minute, d.product))
	d.publish("prices", 100, nil, d.moments(1500, 4*time.Second, d.price))
	d.publish("stock", 250, nil, d.moments(5000, time.Second, d.stock))
	d.publish("orders", 100, nil, d.moments(800, 38*time.Second, d.order))
	d.publish("countries", 100, []moment{{d.end.Add(-12 * 24 * time.Hour), d.countries()}}, nil)
}

// sources returns the checkpoints of the bridges that publish some of the feeds.
func sources() map[string]string {
	return map[string]string{
		"products":  `{"bridge":"couchdb","feed":"products","source":"https://db.example/products"}`,
		"countries": `{"bridge":"kinto","feed":"countries","source":"https://kinto.example/v1/buckets/places/collections/countries"}`,
	}
}

// A moment holds the entities that are published at one time.
type moment struct {
	at       time.Time
	entities []*feed.Entity
}

// moments spreads n entities over a day, more of them in the daytime than at night. At d.end, the last of them has the
// given age.
func (d *demo) moments(n int, age time.Duration, next func() *feed.Entity) []moment {
	const steps = 24 * 60
	var total float64
	weights := make([]float64, steps)
	for i := range weights {
		hour := float64(d.end.Add(-day+time.Duration(i)*day/steps).Hour()) + float64(i%60)/60
		weights[i] = (1.15 - math.Cos((hour-3)/12*math.Pi)) * (0.5 + d.rng.Float64())
		total += weights[i]
	}
	var all []moment
	due := 0.0
	for i, w := range weights {
		due += w / total * float64(n)
		m := moment{at: d.end.Add(-day - age + time.Duration(i+1)*day/steps)}
		for ; due >= 1; due-- {
			m.entities = append(m.entities, next())
		}
		if i == steps-1 && len(m.entities) == 0 {
			m.entities = append(m.entities, next())
		}
		if len(m.entities) > 0 {
			all = append(all, m)
		}
	}
	return all
}

// publish publishes the entities of moments at their times, in pages of at most size entities.
func (d *demo) publish(name string, size int, parts ...[]moment) {
	d.t.Helper()
	var now time.Time
	f, err := producer.Open(context.Background(), d.store, name, producer.Config{MaxPageEntities: size, Now: func() time.Time { return now }})
	if err != nil {
		d.t.Fatal(err)
	}
	checkpoint, err := f.Checkpoint(context.Background())
	if err != nil {
		d.t.Fatal(err)
	}
	for _, moments := range parts {
		for _, m := range moments {
			now = m.at
			batch := producer.Batch{Entities: m.entities}
			if source := sources()[name]; source != "" {
				batch.Previous, batch.Checkpoint = checkpoint, []byte(source)
				checkpoint = batch.Checkpoint
			}
			if _, err := f.PublishBatch(context.Background(), batch); err != nil {
				d.t.Fatal(err)
			}
		}
	}
	if err := f.Close(); err != nil {
		d.t.Fatal(err)
	}
}

func (d *demo) put(key, body string) *feed.Entity {
	d.ids++
	return &feed.Entity{
		ContentID: fmt.Sprintf("<%08x-%05d@shop.example>", d.rng.Uint32(), d.ids), Operation: feed.Put,
		ContentType: "application/json", ContentLocation: feed.EncodeKey(key), Body: []byte(body),
	}
}

type product struct{ sku, name, unit, price string }

func (p product) json(note string) string {
	return fmt.Sprintf(`{"sku":%q,"name":%q,"unit":%q,"price":%s,"currency":"EUR","organic":%t,"note":%q}`, p.sku, p.name, p.unit, p.price, len(p.sku)%2 == 0, note)
}

// products returns the catalogue.
func products() []product {
	var all []product
	for line := range strings.SplitSeq(strings.TrimSpace(`
tea-assam Assam|tea-ceylon Ceylon|tea-darjeeling Darjeeling first flush|tea-earl-grey Earl Grey|tea-genmaicha Genmaicha|tea-gunpowder Gunpowder|tea-jasmine Jasmine pearls|tea-keemun Keemun
tea-lapsang Lapsang souchong|tea-mint Moroccan mint|tea-oolong Oolong, lightly roasted|tea-pu-erh Pu-erh|tea-rooibos Rooibos|tea-sencha Sencha|tea-white White peony|tea-yunnan Yunnan gold
coffee-brazil Brazil|coffee-colombia Colombia|coffee-costa-rica Costa Rica|coffee-decaf Decaffeinated|coffee-espresso Espresso blend|coffee-ethiopia Ethiopia, washed|coffee-guatemala Guatemala|coffee-kenya Kenya
cup-porcelain Cup, porcelain|cup-glass Cup, double glass|filter-paper Paper filters|filter-steel Steel filter|grinder-hand Hand grinder|kettle-gooseneck Gooseneck kettle|pot-cast-iron Cast-iron pot|pot-glass Glass pot`), "\n") {
		for item := range strings.SplitSeq(line, "|") {
			sku, name, _ := strings.Cut(item, " ")
			all = append(all, product{sku, name, "100 g", fmt.Sprintf("%d.%02d", 3+len(name)%13, 10*(len(sku)%10))})
		}
	}
	return all
}

func (d *demo) any() product {
	all := products()
	return all[d.rng.IntN(len(all))]
}

func (d *demo) product() *feed.Entity {
	p := d.any()
	switch d.rng.IntN(12) {
	case 0:
		e := d.put(p.sku, "")
		e.Operation, e.ContentType, e.Body = feed.Delete, "", nil
		return e
	case 1, 2:
		e := d.put(p.sku, `{"note":"new harvest"}`)
		e.Operation, e.ContentType = feed.Patch, "application/merge-patch+json"
		return e
	}
	return d.put(p.sku, p.json("in stock"))
}

func (d *demo) price() *feed.Entity {
	p := d.any()
	return d.put(p.sku, fmt.Sprintf(`{"sku":%q,"price":%d.%02d,"currency":"EUR","from":%q}`, p.sku, 3+d.rng.IntN(14), 5*d.rng.IntN(20), d.end.Format(time.DateOnly)))
}

func (d *demo) stock() *feed.Entity {
	p := d.any()
	return d.put(p.sku, fmt.Sprintf(`{"sku":%q,"shelf":%d,"warehouse":%d}`, p.sku, d.rng.IntN(40), d.rng.IntN(900)))
}

func (d *demo) order() *feed.Entity {
	p := d.any()
	n := 10_000 + d.ids
	return d.put(fmt.Sprintf("%d", n), fmt.Sprintf(`{"order":%d,"lines":[{"sku":%q,"quantity":%d,"price":%s}]}`, n, p.sku, 1+d.rng.IntN(5), p.price))
}

func (d *demo) countries() (all []*feed.Entity) {
	for line := range strings.SplitSeq("AT Austria|BE Belgium|CH Switzerland|CI Côte d’Ivoire|CR Costa Rica|DE Germany|DK Denmark|ES Spain|ET Ethiopia|FI Finland|FR France|GR Greece|IN India|IT Italy|JP Japan|KE Kenya|LK Sri Lanka|NL Netherlands|NO Norway|PT Portugal|SE Sweden", "|") {
		code, name, _ := strings.Cut(line, " ")
		all = append(all, d.put(code, fmt.Sprintf(`{"code":%q,"name":%q}`, code, name)))
	}
	return all
}
