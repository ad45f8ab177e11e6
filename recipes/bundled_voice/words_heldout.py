"""Sentences for the measurements, written by hand. Training never contains them.

Training does not even contain the words of ``UNSEEN``, nor words that begin with their stems,
except the small words of ``SMALL``. These sentences were selected from 72 by the few errors of a
recogniser on the teacher's speech (rms, then kal16). So the errors that remain are caused by the
model. In the first selection, the recogniser got a quarter of the words wrong.
"""

from __future__ import annotations

EVERYDAY = """
good evening, did you have a pleasant journey?
i forgot to water the plants before we left.
can you pass me the salt, please?
her sister is getting married in the spring.
we ran out of milk, so i had my coffee black.
the bus was late again this morning.
what time does the library open on saturday?
he has lived in the same street for thirty years.
please leave your shoes by the door.
i think it is going to rain before dinner.
my phone died in the middle of the call.
they painted the kitchen yellow last summer.
how much is a ticket to the museum?
the doctor told him to rest for a week.
it costs fourteen dollars and fifty cents.
you should have seen the look on her face.
there is a small bakery at the corner.
did anybody find a blue umbrella?
i would rather stay at home tonight.
the meeting was moved to half past three.
no.
thanks a lot.
could you speak a little more slowly?
we have been waiting for almost an hour.
our neighbors have two dogs and a very loud parrot.
the children built a castle out of wet sand.
i cannot remember where i parked the car.
she called me twice, but i was in the shower.
turn left after the bridge and drive straight on.
is there a pharmacy near here?
my father makes the best tomato soup.
the store closes at nine on weekdays.
they sold their house and moved to the coast.
he was born on the second of may.
it snowed all night, and the roads are closed.
do you take sugar in your tea?
i will send you the address later.
somebody left the lights on in the basement.
the soup is too hot to eat.
where did you put the scissors?
we need to buy a present for your mother.
i have a headache, so i am going to bed.
the movie was much better than the book.
our train leaves from platform seven.
nobody knew the answer to the last question.
his new job starts on the first of september.
could we have the bill, please?
the cat fell asleep on top of the printer.
you can borrow my bicycle if you like.
she speaks three languages and plays the violin.
it is exactly two miles from here to the station.
what are you doing this weekend?
the coffee machine is broken again.
we met at a party a long time ago.
i am sorry, i did not mean to wake you.
put the eggs in cold water first.
there were about two hundred people in the hall.
my grandmother taught me how to knit.
the plumber is coming on wednesday afternoon.
are you sure that this is the right way?
he broke his arm while skiing.
let me know when you are ready.
i have never been to a football game.
the hotel had a lovely view of the lake.
why did you not tell me earlier?
the baby has been crying since noon.
we could meet in front of the cinema.
she bought a red dress and a pair of boots.
my computer needs a new battery.
the flight was cancelled because of the storm.
everybody laughed except the teacher.
can i try this on in a larger size?
the garden looks beautiful in the evening light.
he drinks six cups of coffee a day.
it took us four hours to climb the hill.
please write your name at the top of the page.
i would love to, but i have to work.
the museum is free on sundays.
we saw a fox in the field behind the school.
how old is your youngest brother?
the bread is still warm.
they argued about money for weeks.
my favorite season is autumn.
you have to sign here and here.
the water in the lake was freezing.
i found twenty dollars in an old jacket.
did you lock the back door?
the shop on main street sells fresh fish.
he apologized, and that was the end of it.
she has been a nurse for eleven years.
it is a quarter past eight.
what would you like for breakfast?
the weather forecast says it will be sunny tomorrow.
there is something wrong with my left knee.
we watched the ships come into the harbor.
our team lost by a single point.
i need a haircut.
can you help me carry this table upstairs?
the river flooded the whole village.
they have a son and two daughters.
good luck with your exam tomorrow.
the keys were in my pocket all the time.
this soup needs a bit more pepper.
he reads the newspaper every morning.
how do you spell your last name?
we spent the afternoon in the park.
the old clock in the hall has stopped.
i can hear music coming from next door.
she promised to write once a month.
the rent is nine hundred dollars a month.
would you mind closing the window?
my uncle has a farm in the mountains.
the elevator is out of order.
i have been learning to cook.
the dog barked at the mailman.
they arrived at twenty past ten.
is this seat taken?
you look tired, did you sleep badly?
the picture on the wall is crooked.
it was the coldest winter in forty years.
he always sings in the car.
i left my glasses at the office.
we should order a pizza tonight.
the police stopped us for driving too fast.
her office is on the fifth floor.
see you on monday.
that sounds like a good idea.
the apples are not ripe yet.
do not touch the stove, it is hot.
the bank is closed today because of the holiday.
we are going to paint the fence on saturday.
my shoes are wet.
there is a letter for you on the desk.
i dreamed that i could fly.
he studied history in london.
the concert begins at eight thirty.
have you fed the fish today?
the towels are in the second drawer.
it is too dark to take a photograph.
she won the race by two seconds.
what is the capital of portugal?
the teacher gave us too much homework.
they keep their bread in a wooden box.
i agree with you completely.
the milk smells funny.
our guests will be here in twenty minutes.
you can pay by card or in cash.
he fixed the roof with his own hands.
the road gets narrow behind the church.
i cannot believe how much you have grown.
the cookies are for the children.
we have had this sofa since college.
when is your birthday?
the storm broke three of our windows.
she works at a hospital near the airport.
my watch is five minutes fast.
it is cheaper to take the train.
the soup of the day is mushroom.
they named the puppy after a famous singer.
there was no answer, so i left a message.
would you like to dance?
the mountain is hidden in the clouds.
i usually get up at six.
the new manager seems friendly.
you should try the chocolate cake.
we got lost on the way to your house.
he carried the suitcase to the taxi.
the washing machine makes a strange noise.
are there any questions?
it was nice talking to you.
the kids are playing cards in the living room.
i have to return these books by friday.
the sun rises at ten to six.
her hair is longer than mine.
we planted tomatoes and beans.
the last bus leaves at midnight.
please keep your voice down.
my brother is taller than i am.
the tea is getting cold.
how long have you known each other?
he never answers my emails.
there are sixty seconds in a minute.
i bought it for half the price.
the view from the tower is amazing.
they are staying with friends in boston.
can you see the small boat over there?
the pool is open until october.
she put the flowers in a glass of water.
we always have soup on thursdays.
the baby weighs seven pounds.
i need to charge my phone.
he left without saying goodbye.
the restaurant was full, so we went home.
do you believe in ghosts?
it is your turn to wash the dishes.
the horse jumped over the wall.
you were right about the weather.
the kettle is boiling.
have a safe trip, and call us when you get there.
what a wonderful surprise.
"""

# Sixty words each, separated by empty lines.
LONG = """
when we came home from the market last saturday, my mother was standing in the kitchen with flour
on her hands, and she asked us to set the table for ten people, because my aunt and her whole
family had called from the station to say that they would be with us before dark if the taxi found
the way.

i wanted to tell you that the man from the bank rang again this morning, and although i explained
to him twice that you were away until the end of the week, he said that he needed your answer
before friday at noon, so please call him back as soon as you can and then let me know what he
says.

if you walk past the school and turn right at the second traffic light, you will see a long white
building with a green door, and behind it there is a small garden with old trees, where we used to
sit in the evening with our books and talk about all the places that we would like to see some
day.

the first thing that she noticed when she opened the letter was that the date was wrong by a year,
and the second was that her name was written with one letter too many, but when she had read it to
the end she knew that it was meant for her and that she would have to leave in the morning.
"""

UNSEEN = """
the carpenter sharpened his chisel.
the volcano erupted beneath the ocean.
an elephant trampled the pumpkins.
the detective examined the muddy footprints.
the ambassador declined the invitation politely.
lobsters and oysters were served on a silver platter.
the astronomer polished his telescope.
the submarine surfaced near the peninsula.
the blacksmith hammered a glowing horseshoe.
the pigeon perched on the cathedral.
the tornado demolished the warehouse.
the hamster gnawed through the cardboard.
the chemist diluted the poison with vinegar.
the inventor patented a gigantic vacuum.
two penguins slid across the frozen glacier.
the caterpillar nibbled the cabbage.
the governor vetoed the legislation.
the pharaoh admired her emerald necklace.
the blizzard paralyzed the province.
the astronauts are orbiting jupiter.
the sergeant barricaded the entrance.
our canoe drifted towards the waterfall.
the orchestra rehearsed the symphony.
the librarian was whispering to the janitor.
the emperor is an arrogant dictator.
the hermit lived in a cavern.
the shepherd is stubborn.
the jury convicted the kidnapper.
the senator denounced the scandal.
the philosopher pondered the paradox.
the bishop blessed the congregation.
the biologist is analyzing bacteria under a microscope.
the hurricane devastated the archipelago.
the geologist discovered fossils in the canyon.
the pirates plundered the galleon.
the locksmith duplicated the combination.
the alligator swallowed a flamingo.
the parliament abolished the monarchy.
the refugees crossed the frontier.
the comedian imitated the announcer.
the dinosaurs became extinct.
the electricity was generated by turbines.
the committee adopted the amendment unanimously.
the cathedral was renovated by volunteers.
the magician vanished in a puff of vapor.
the archbishop condemned slavery.
the monastery is famous for its manuscripts.
the leopards were crouching behind the bamboo.
the choir rehearsed in the chapel.
the vampire fled from the coffin.
"""

# Words that the unseen sentences share with all others.
SMALL = """
a an the and of on in at to out under near behind beside beneath across along through towards from
his her our by for with its two is are was were became served lived famous crossed escaped
"""
